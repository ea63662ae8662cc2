"""Texts of many scripts and languages, written for these tests, and words that stemmers find hard."""

from __future__ import annotations

import ast
import importlib
import random
import re
from pathlib import Path

SCRIPTS = {
    "Latin": "The Lancelet's children weren't running; naïve cafés in Zürich, Øresund & Łódź cost 12.50€ (re-opened 3rd).",
    "Greek": "Τα παιδιά της ΘΆΛΑΣΣΑΣ έτρεχαν γρήγορα, ο Οδυσσεύς έγραψε 24 βιβλία· τι ώρα είναι;",
    "Cyrillic": "Дети бежали по берегу моря, ёжик нашёл «красивую» книгу № 7 и п'ять яблук. ЩЁТКА",
    "Arabic": "كان الأطفال يركضون على الشاطئ، والكتابُ الجميل رقم ٤٢ في المدينة؟ ٱلْحَمْدُ",
    "Hebrew": "הילדים רצו על חוף הים, צה״ל ושָׁלוֹם עולם 1948 ג'ירפה.",
    "Devanagari": "बच्चे समुद्र के किनारे दौड़ रहे थे। क्षेत्रफल १२३ किताबें हैं॥ श्री",
    "Bengali": "শিশুরা সমুদ্রের ধারে দৌড়াচ্ছিল। বাংলা ভাষা ১২৩ বই",
    "Tamil": "குழந்தைகள் கடற்கரையில் ஓடினார்கள், அவர்கள் 12 புத்தகங்களை வாங்கினர் என்று கூறினான்.",
    "Telugu": "పిల్లలు సముద్ర తీరంలో పరిగెత్తారు, పుస్తకం ౧౨౩ చాలా బాగుంది.",
    "Malayalam": "കുട്ടികൾ കടൽത്തീരത്ത് ഓടി, പുസ്തകം നല്ലതാണ് ൧൨൩.",
    "Sinhala": "ළමයි වෙරළේ දිව්වා, ශ්‍රී ලංකාව ලස්සන රටකි.",
    "Thai": "เด็กๆ วิ่งเล่นริมทะเล ราคา ๑๒๓ บาท ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "Lao": "ເດັກນ້ອຍແລ່ນຢູ່ແຄມທະເລ ພາສາລາວບໍ່ມີຊ່ອງຫວ່າງ",
    "Khmer": "ក្មេងៗរត់លេងនៅមាត់សមុទ្រ ភាសាខ្មែរ ១២៣",
    "Burmese": "ကလေးများသည် ပင်လယ်ကမ်းခြေတွင် ပြေးနေကြသည်။ မြန်မာစာ ၁၂၃",
    "Tibetan": "བོད་སྐད་ཀྱི་ཡི་གེ། ༡༢༣ ཕྲུ་གུ་རྣམས་རྒྱུག",
    "Georgian": "ბავშვები ზღვის პირას დარბოდნენ, ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ ლამაზია 12",
    "Armenian": "Երեխաները վազում էին ծովի ափին։ ՀԱՅԱՍՏԱՆ և 12 գիրք",
    "Ethiopic": "ልጆች በባህር ዳርቻ ሮጡ። አማርኛ ፲፪ መጽሐፍ፡ጥሩ",
    "Han": "孩子们在海边奔跑，文昌鱼是一种小动物。北京大学生前来应聘２０２４年！",
    "Japanese": "子供たちは海辺を走っていた。ナメクジウオは小さな動物です。東京タワー、ｶﾀｶﾅとＡＢＣ１２３",
    "Korean": "아이들이 바닷가에서 뛰어놀았다. 창고기는 작은 동물이다, 서울특별시 12시",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꭰꮕꭹ Ꭰ",
    "Emoji": "I ❤️ 👨‍👩‍👧‍👦 and 🏳️‍🌈 #lancelet @reef x² H₂O ½ Ⅻ ﬁsh ﷺ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 e\u0301te\u0301",
    "Code": "fn parseHTTPResponse2(x_y: &str) -> Option<i64> { self.foo_bar__baz += 0xFF; a::b != c } // don't $name @Override",
}

LANGUAGES = {
    "Arabic": SCRIPTS["Arabic"],
    "Danish": "Børnene løb hurtigt langs stranden og fandt nogle smukke muslinger, som ikke var blevet samlet",
    "Dutch": "De kinderen renden over het strand en vonden mooiere schelpen dan zij ooit gezien hadden, zo'n geluk",
    "English": SCRIPTS["Latin"],
    "Finnish": "Lapset juoksivat rannalla eivätkä löytäneet kauniimpia simpukoita kuin heidän ystävillään oli",
    "French": "Les enfants couraient joyeusement sur la plage où ils n'avaient jamais trouvé d'aussi beaux coquillages",
    "German": "Die Kinder liefen über den weißen Strand und fanden die schönsten Muscheln, die es dort jemals gegeben hätte",
    "Greek": SCRIPTS["Greek"],
    "Hungarian": "A gyerekek a tengerparton szaladgáltak és szebb kagylókat találtak, mint amilyeneket valaha láttak",
    "Italian": "I bambini correvano velocemente sulla spiaggia, dove l'acqua era più pulita e trovarono delle conchiglie",
    "Norwegian": "Barna løp langs stranden og fant vakrere skjell enn de noensinne hadde sett, men ikke mange",
    "Portuguese": "As crianças corriam alegremente pela praia e não encontraram conchas tão bonitas quanto aquelas",
    "Romanian": "Copiii alergau pe plajă și au găsit cele mai frumoase scoici pe care le-au văzut vreodată, într-adevăr",
    "Russian": SCRIPTS["Cyrillic"],
    "Spanish": "Los niños corrían rápidamente por la playa y encontraron conchas más bonitas que las que habían visto",
    "Swedish": "Barnen sprang längs stranden och hittade vackrare snäckor än de någonsin hade sett, men inte många",
    "Tamil": SCRIPTS["Tamil"],
    "Turkish": "Çocuklar kumsalda koşuyorlardı ve şimdiye kadar gördükleri en güzel kabukları buldular, IĞDIR'da",
}


def hard_words(language: str, count: int, seed: int) -> list[str]:
    """Words put together of the endings that a stemmer of the language knows."""
    module = importlib.import_module(f"snowballstemmer.{language.lower()}_stemmer")
    source = Path(module.__file__).read_text(encoding="utf-8")
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    endings = sorted(text for text in texts if isinstance(text, str) and text and not re.search(r"[\s_]", text))
    letters = sorted(set("".join(endings)))
    draw = random.Random(seed)
    words = set()
    while len(words) < count:
        stem = "".join(draw.choices(letters, k=draw.randrange(6)))
        word = stem + "".join(draw.choices(endings, k=draw.randrange(4)))
        if word:
            words.add(word)
    return sorted(words)
