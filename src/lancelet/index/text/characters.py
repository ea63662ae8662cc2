"""What is known of each character: whether it belongs to a word, and its small letter.

As pylance's tokenizers know it (Unicode 17), whatever the release of Python: words are runs of characters that are letters or numbers
in the wide sense, with vowel signs and numerals of all kinds. Small letters are found character by character, so a capital sigma
at the end of a word becomes the same letter as elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

CHARACTERS: Final = 0x110000
# Characters of words as runs, in base 36: how many are skipped, how many follow.
_WORDS: Final = """
1c a 7 q 6 q 1b 1 7 2 1 1 3 2 1 3 1 n 1 v 1 cq 4 c e 5 7 1 1 1 2e 1 t i 1 2 2 4 1 1 6 1 1 3 1 1 1 k 1 2b 1 3v 8
4m 1 12 2 1 6 15 13 e 1 1 1 2 1 2 1 1 8 r 4 4 t b 5 1k 1 h 4 2u 1 8 4 8 4 g 2 1 g 1c d 2t e 17 9 2 4 1 5 o 2 j j
p 7 b 5 o 1 7 7 1 8 16 a c 3 7 6 24 1 g 1 3 4 f 2 a 1 j 1 8 2 2 2 m 1 7 1 1 3 4 3 8 2 2 2 2 1 1 8 1 4 2 1 5 2 c
2 6 2 1 4 3 1 6 4 2 2 m 1 7 1 2 1 2 1 2 4 5 4 2 2 2 4 1 7 4 1 1 7 g b 3 1 9 1 3 1 m 1 7 1 2 1 5 3 9 1 3 1 2 3 1
f 4 2 a 9 4 4 3 1 8 2 2 2 m 1 7 1 2 1 5 3 8 2 2 2 2 9 2 4 2 1 5 2 a 1 7 a 2 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c
4 5 3 3 1 3 3 1 6 1 e d d d 1 3 1 n 1 g 3 8 1 3 1 3 8 2 1 3 1 2 2 4 2 a 8 7 1 4 1 8 1 3 1 n 1 a 1 5 3 8 1 3 1 3
8 2 5 3 1 4 2 a 1 3 c d 1 3 1 15 2 8 1 3 1 3 1 1 5 g 2 j 1 6 1 3 1 i 3 o 1 9 1 1 2 7 8 6 1 1 1 8 6 a 2 2 d 1m 5
7 6 1 2 a 13 2 1 1 1 5 1 o 1 1 1 j 1 3 2 5 1 1 6 1 2 a 2 4 w 1 v k c 8 1 10 4 j 4 g 1 10 1v 1j 1 1 2 f 6 26 2 12
1 1 5 1 2 17 1 99 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v e k 3 g g 2e 2 6 3 h8 2 h 1 q 5
23 3 b 7 k b l c k c d 1 3 1 2 c 1g 2 j e 1 4 1 3 a 6 a m a 6 2h 7 17 5 1y a v 1 c 4 9 d 14 2 5 b 18 4 q 6 b 11
s 4 1r 2 k b a 6 a d 1 n 2 b 3 1d 1g 1 f 1 8 3 a 12 16 2 1m 1 b e 1j 9 a 3 1d 2 b 5 17 2 3 15 4 1 6 1 2 3 1 5 5c
j y b 7q 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 37 2 2 6 5 b 6 d 2t 1 4 1 2 a
1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1 1m k6 1o q 22 hi u vg 6d 6 4 3 2 9 1 2 12 1 1 5 1 2 1k 7 1 g n 9 7 1 7
1 7 1 7 1 7 1 7 1 7 1 7 1 w 1b 1 d1 3 p 9 7 5 2 5 4 2e 6 3 1 2i 1 4 5 17 1 2m 3 4 a w 1c g w a u 8 1 f w a 13 f
8w 534 1s h3h 1v 1a 2 7h 3 s k 1b 5 8 3 35 13 9 2 2v 2 2a k l 1 x 8 6 a 1g c 1w 1 1 a a o 6 3 1 1 1a 5 z d t 3
1f 1 c f b 6 v 1 1j 9 e 2 a 6 n 3 1x 1 1 1 1 o 3 2 g 2 4 b 6 2 6 2 6 9 7 1 7 1 17 1 e 6 3f 5 a 6 8mc c n 4 1d
6is a6 2 2y 12 7 c 5 5 c 1 d 1 5 1 1 1 2 1 2 1 30 x a3 i 1s 2 1i 14 c 38 5 1 3r j a 7 q 6 q b 2h 3 6 2 6 2 6 2 3
z c 1 q 1 j 1 2 1 f 2 e y 3f c 19 c 1l h 2 6s t 3 1d g r 4 10 9 u 5 17 5 u 2 10 4 8 1 5 16 4e 2 a 6 10 4 10 4 14
8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 3 1g c 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18 1 2 3 1 2 n 2 v 2 12 8 9 1c j
1 2 5 x 4 q 6 q 12 1k 4 k 2 1e 1 2 5 8 1 3 1 t a 9 n v 1 w w 8 1 s 6 5 g 1i a m 2 r 5 q n 7 28 21 1j 1f d 1f 7
1a 8 a 6 12 3 1 5 n 62 v 1 16 1 2 3 2 g 6 1e 3 3 14 8 m b 4 r i 1a s k n 9 1y c u 1 5 a 1l 9 1 d p 7 a 6 1f 3 a
4 4 8 z 3 1 9 1s 1 4 9 d 1 1 4 k b i 1 y 2 1 6 4 1q 7 1 1 1 4 1 f 1 a 7 1l 7 a 6 4 1 8 2 2 2 m 1 7 1 2 1 5 3 8 2
2 2 2 3 1 6 1 5 7 s a 1 1 2 1 1 12 1 a 1 1 2 1 1 4 1 2 3 1 1 1 18 1u 1 3 1 4 5 a 5 3 u 1u 2 2 1 1 8 a 4m 1i 2 7
p 6 y 1r 1 1 3 1 b a 12 1i 2 1 7 a 6 k s r 2 e 5 c 4 7 55 1l 2v 2b c 8 2 1 2 8 1 2 1 u 1 2 2 2 2 4 d a 1y 8 2 1a
2 6 1 1 1 2 r 1f 2 a h 20 5 1 i 21 2v 8 2g x f a 6 9 1 19 1 7 1 1 f t 5 u 2 m 1 e 21 7 1 2 1 18 3 1 1 2 1 3 1 1
2 2 8 a 6 6 1 2 1 11 1 2 1 4 1 1 7 a 6 18 4 a 6u n 9 h 1 15 3 3 f a 2e 1 f l 17 pm 2u 33 h 5g 218 2p f ts h 6 p
32z 5 g7 5a1 1b 1 a 1c6 ft 7 v 1 a 6 27 1 a 6 u i 1c g 4 c a 1 7 1 l 5 j c0 19 3 a 5i 2f 9 p 2 p 18 23 4 1l 7 h
1s 2 1 1 c 7 9 5p2 15 w 2p 37 6pp 4 1 7 1 2 1 83 f 1 t 3 2 1 e 4 8 b0 1s4 2z 5 d 3 9 7 a 4 1 381 a 152 k c k 30
p 3r 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1 1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 v 1
p 1 v 1 p 1 8 2 1e 1ds v 6 6 5x 7 1 h 2 7 1 2 1 5 5 1q x 1 34 19 a 7 2 a 4 1 8x u i 18 4 a d2 s 4 a 5y u 2 b 5h
v 1 m 8 2 68 7 1 4 1 2 1 f 1 5h 2 9 1c 1w 3 1 3 1 4 a lz 1n 1 3 1 4 24 19 1 f 5e 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1
1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h g4 d z q 6 q 6
q 21y a sm wyo w 3dq 2 4ge 2 5rl f ha 1wi f2 15u 3t7 5 6ju
"""
# Letters by their case, in base 36: how far the first of a run is from the first of the one before, and how many follow
# each other (+) or every other one (*).
_CAPITALS: Final = """
1t+q 3j+n o+7 14*s 1l*8 h*o 1b*3 8+2 3*2 3*2 3+2 4+4 5+2 3+3 6+2 3+2 3*3 5*2 5*2 3*2 3+2 3*2 3+1 4+1 8+1 3+1 3+1 3*8
h*9 j+1 3*2 3+2 3*t 1s+2 3+2 4*2 3+3 4*4 88*2 6+1 9+1 7*2 3+2 3*2 3*2 3+g h+9 18+1 3+3 6*c s+1 3*2 3+1 3+1f 2r*h
16*s 1j*7 f*1c 2p+12 29b+12 13+1 6+1 k3+2e 1rd+1 7+17 19+3 8z*23 4e*1d 2y+8 g+6 g+8 g+8 g+6 h*4 f+8 28+4 g+4 g+4 g+5
g+4 7e+1 5+1 4+3 5+3 5+1 4+5 b*4 7+3 5+4 e+2 7+1 r+g z+1 mr+q 1fu+1c 2o*2 3+2 4*4 7+3 4+1 3+1 9+3 4*1d 2x*2 7+1
nym*n 1s*e 4i*7 g*v 1z*3 5*5 d*2 5*2 6*b l+4 5+5 6*8 f+3 4*2 3*9 15+1 h7w+q yn+14 4w+10 5c+b c+f g+7 8+2 1d8+1f 5s+m
28g+w gww+w 2o+p k0w+q 1g+q 1g+q 1g*2 3+1 3+1 3+2 4+4 5+8 y+q 1g+2 3+4 6+8 9+7 y+2 3+4 5+5 6+1 4+7 y+q 1g+q 1g+q
1g+q 1g+q 1g+q 1k+p 1m+p 1m+p 1m+p 1m+p 1m+1 3ee+y 1m8+q w+q w+q
"""
_SMALL: Final = """
2p+q 21+1 b+1 5+1 11+o p+8 9*s 1j*9 h*o 1d*3 5+2 4*2 5+1 4+2 6+1 3+1 4+3 5+1 3*3 7*2 3*2 5+1 4*2 5+2 4+3 9+1 3+1 3*9
h*a j+1 3*2 6*u 1n+6 8+1 3+2 3+1 5*5 9+1w 1y+z 16+2 w+5 2t+1 18*2 6+1 3+4 m+1 s+z 10+2 5+3 4*c n+4 5+1 3+1 3+2 1h+1c
1d*h 16*r 1j*7 d*1d 41+15 29c+17 18+4 l8+6 1oo+9 a+1 3a+5c 75*23 45+8 9*1d 2p+8 g+6 g+8 g+8 g+6 g+8 g+8 g+e g+8 g+8
g+8 g+5 6+2 8+1 4+3 4+2 a+4 6+2 a+8 i+3 4+2 3f+1 e+1 h+d 3e+1 4+2 5+1 s+1 5+1 5+1 3+2 a+4 8+1 y+g k+1 ng+q 1gg+1c
1d+1 4+2 3*3 9*2 3*2 3+7 a*1e 2r+1 8*2 7+1 d+12 13+1 6+1 nx0*n 1s*e r+2 3r*7 d+2 3*v 1p+9 a*2 5*5 d*2 5*2 3+2 3*a
o+1 6*8 j*2 5*8 10+4 5*2 3+2 mv+17 18+e k+28 fps+7 j+5 tq+q yv+14 4w+10 5b+b c+f g+7 8+2 cl+1 3+3 4+16 17+9 zy+1f
4w+m 28g+w gww+w 2j+p k0v+q 1g+7 8+i 18+q 1g+4 5*2 3+6 7+b 11+q 1g+q 1g+q 1g+q 1g+q 1g+q 1g+q 1g+q 1g+s 1k+p q+6 w+p
q+6 w+p q+6 w+p q+6 w+p q+6 7+1 1f9+a b+k q+6 7f+1q 1rm+y
"""
# What becomes another letter, in base 36: the first, how many follow each other (+) or every other one (*), how far up (>) or down (<).
_LOWERED: Final = """
1t+q>w 5c+n>w 60+7>w 74*o>1 8i*3>1 8p*8>1 96*n>1 ag+1<3d ah*3>1 ap+1>5u aq*2>1 au+1>5q av+1>1 ax+2>5p az+1>1
b2+1>27 b3+1>5m b4+1>5n b5+1>1 b7+1>5p b8+1>5r ba+1>5v bb+1>5t bc+1>1 bg+1>5v bh+1>5x bj+1>5y bk*3>1 bq+1>62
br+1>1 bt+1>62 bw+1>1 by+1>62 bz+1>1 c1+2>61 c3*2>1 c7+1>63 c8+1>1 cc+1>1 ck+1>2 cl+1>1 cn+1>2 co+1>1 cq+1>2
cr*9>1 da*9>1 dt+1>2 du*2>1 dy+1<2p dz+1<1k e0*k>1 f4+1<3m f6*9>1 fu+1>8bv fv+1>1 fx+1<4j fy+1>8bs g1+1>1
g3+1<5f g4+1>1x g5+1>1z g6*5>1 og*2>1 om+1>1 ov+1>38 p2+1>12 p4+3>11 p8+1>1s pa+2>1r pd+h>w pv+9>w r3+1>8 rc*c>1
s4+1<1o s7+1>1 s9+1<7 sa+1>1 sd+3<3m sg+g>28 sw+w>w v4*h>1 wa*r>1 xs+1>f xt*7>1 y8*1c>1 10x+12>1c 3a8+12>5ls
3bb+1>5ls 3bh+1>5ls 3vk+28>tzk 3xs+6>8 5mx+1>1 5n4+17<2bk 5od+3<2bk 5xc*23>1 61q+1<5vj 61s*1c>1 64o+8<8 654+6<8
65k+8<8 660+8<8 66g+6<8 66x*4<8 67c+8<8 688+8<8 68o+8<8 694+8<8 69k+2<8 69m+2<22 69o+1<9 6a0+4<2e 6a4+1<9
6ag+2<8 6ai+2<2s 6aw+2<8 6ay+2<34 6b0+1<7 6bc+2<3k 6be+2<3i 6bg+1<9 6jq+1<5st 6ju+1<6gv 6jv+1<6di 6k2+1>s
6lc+g>g 6mb+1>1 792+q>q 8ow+1c>1c 8rk+1>1 8rm+1<8af 8rn+1<2xy 8ro+1<89z 8rr*3>1 8rx+1<8bg 8ry+1<8al 8rz+1<8bj
8s0+1<8bi 8s2+1>1 8s5+1>1 8se+2<8cf 8sg*1e>1 8vf*2>1 8vm+1>1 wu8*n>1 ww0*e>1 x0i*7>1 x0y*v>1 x2x*2>1 x31+1<r9g
x32*5>1 x3f+1>1 x3h+1<wmg x3k*2>1 x3q*a>1 x4a+1<wn8 x4b+1<wnj x4c+1<wnf x4d+1<wn5 x4e+1<wn8 x4g+1<wlu x4h+1<wmi
x4i+1<wlx x4j+1>ps x4k*8>1 x50+1<1c x51+1<wn7 x52+1<raw x53*2>1 x57+1<wo7 x58*8>1 x5o+1<wu9 x6d+1>1 1ee9+q>w
1fcw+14>14 1fhs+10>14 1fn4+b>13 1fng+f>13 1fnw+7>13 1fo4+2>13 1h1c+1f>1s 1h74+m>w 1jfk+w>w 20cg+w>w 20f4+p>r
2olc+y>y
"""
_BASE: Final = 36
WORD: Final = 1
CAPITAL: Final = 2
SMALL: Final = 4
_DOTTED_CAPITAL_I: Final = 0x130


@cache
def character_kinds() -> npt.NDArray[np.uint8]:
    """For each character WORD if it belongs to a word, and CAPITAL or SMALL if it is such a letter."""
    lengths = np.array([int(text, _BASE) for text in _WORDS.split()])
    kinds = np.tile(np.array([0, WORD], np.uint8), len(lengths) // 2)
    found = np.zeros(CHARACTERS, np.uint8)
    found[: lengths.sum()] = np.repeat(kinds, lengths)
    for runs, kind in ((_CAPITALS, CAPITAL), (_SMALL, SMALL)):
        start = 0
        for run in runs.split():
            step = 2 if "*" in run else 1
            distance, _, count = run.partition("*" if step == 2 else "+")
            start += int(distance, _BASE)
            found[start : start + step * int(count, _BASE) : step] |= kind
    found.flags.writeable = False
    return found


@cache
def small_letters() -> dict[int, str]:
    """The small letters of capitals, for ``str.translate``."""
    # The one that becomes two characters.
    found = {_DOTTED_CAPITAL_I: "i\u0307"}
    for run in _LOWERED.split():
        step = 2 if "*" in run else 1
        first, _, rest = run.partition("*" if step == 2 else "+")
        count, _, distance = rest.partition("<" if "<" in rest else ">")
        shift = -int(distance, _BASE) if "<" in rest else int(distance, _BASE)
        start = int(first, _BASE)
        for code in range(start, start + step * int(count, _BASE), step):
            found[code] = chr(code + shift)
    return found


def lower(text: str) -> str:
    """A text in small letters."""
    return text.lower() if text.isascii() else text.translate(small_letters())
