"""What characters are to Unicode's word boundaries (UAX 29, Unicode 17), as ICU4X knows them.

Colons end words, as in ICU's root locale. Characters of scripts that are written without spaces are COMPLEX: Chinese and
Japanese, Thai, Lao, Khmer, Burmese, and a few that nobody has a dictionary for, whose runs are words.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from lancelet.index.text.characters import CHARACTERS

# The kinds in segments.h, in their order; then pictures, and letters that are pictures.
_SYMBOLS: Final = ".RLNEZFIKHAQDBMUOJSC"
_KINDS: Final = {**{symbol: kind for kind, symbol in enumerate(_SYMBOLS)}, "P": 32, "G": 42}
# Runs of characters of a kind: its symbol, and how many there are, in base 36.
_RUNS: Final = """
.a L N2 R .i S . D .4 Q .4 U . B . Oa . U .5 Aq .4 J . Aq .a N .z P A .2 F P .6 A . M A . A .5 An . Av . Adc .6 Ay
E34 A5 . A2 .2 A4 U A .6 A M A3 . A . Ak . A2b . A3v . E7 A4m . A12 .2 A4 . A M A15 U A .6 E19 . E . E2 . E2 . E .8
Hr .4 H4 A M .b O6 .6 U2 .2 Eb . F .3 A17 El Oa . O U . A2 E A2r . A E7 O . E6 A2 E2 . E4 A2 Oa A3 .2 A .f A2 E Au
Er .2 A2h Eb A .e Oa Ax E9 A2 .2 U . A .2 E .2 Am E4 A E9 A E3 A E5 .i Ap E3 .4 Ab .5 Ao . A7 O2 .5 E9 A16 Eo O Ex
A1i E3 A Ei A E7 Aa E2 .2 Oa . Ag E3 . A8 .2 A2 .2 Am . A7 . A .3 A4 .2 E A E7 .2 E2 .2 E3 A .8 E .4 A2 . A3 E2 .2
Oa A2 .a A . E .2 E3 . A6 .4 A2 .2 Am . A7 . A2 . A2 . A2 .2 E . E5 .4 E2 .2 E3 .3 E .7 A4 . A .7 Oa E2 A3 E .b E3 .
A9 . A3 . Am . A7 . A2 . A5 .2 E A E8 . E3 . E3 .2 A .f A2 E2 .2 Oa .9 A E6 . E3 . A8 .2 A2 .2 Am . A7 . A2 . A5 .2
E A E7 .2 E2 .2 E3 .7 E3 .4 A2 . A3 E2 .2 Oa . A .g E A . A6 .3 A3 . A4 .3 A2 . A . A2 .3 A2 .3 A3 .3 Ac .4 E5 .3 E3
. E4 .2 A .6 E .e Oa .g E5 A8 . A3 . An . Ag .2 E A E7 . E3 . E4 .7 E2 . A3 . A2 .2 A2 E2 .2 Oa .g A E3 . A8 . A3 .
An . Aa . A5 .2 E A E7 . E3 . E4 .7 E2 .5 A3 . A2 E2 .2 Oa . A2 E .c E4 A9 . A3 . A15 E2 A E7 . E3 . E4 A .5 A3 E .7
A3 E2 .2 Oa .a A6 . E3 . Ai .3 Ao . A9 . A .2 A7 .3 E .4 E6 . E . E8 .6 Oa .2 E2 .d C1m .5 Cf . Oa .13 C2 . C . C5 .
Co . C . Cn .2 C5 . C . C7 . Oa .2 C4 .w A .n E2 .6 Oa .b E . E . E .4 E2 A8 . A10 .4 Ek . E2 A5 Eb . E10 .9 E .1l
C1s Oa .6 C1s Oa C6 A12 . A .5 A .2 A17 . A99 . A4 .2 A7 . A . A4 .2 A15 . A4 .2 Ax . A4 .2 A7 . A . A4 .2 Af . A1l
. A4 .2 A1v .2 E3 .w Ag .g A2e .2 A6 .3 Ah8 .2 Ah S Aq .5 A23 .3 Ab .7 Ai E4 .9 Aj E3 .b Ai E2 .c Ad . A3 . E2 .c
C2c .3 C .4 C2 .2 Oa .x E3 F E Oa .6 A2h .7 A5 E2 Ay E A .5 A1y .a Av . Ec .4 Ec .a Oa Cu .2 C5 .b C18 .4 Cq .6 Ob
.3 C2 .w An E5 .4 C1r . Ct .2 E Oa .6 Oa .6 Ce .2 E1a .2 Ec .k E5 A1b Eh A8 .3 Oa .h E9 .c E3 Au Ed A2 Oa A18 Ee .c
A10 Ek .8 Oa .3 A3 Oa A10 .2 Ab .5 A17 .2 A3 .g E3 . El A4 E A6 E A2 E3 A .5 A5c E1s A7q .2 A6 .2 A12 .2 A6 .2 A8 .
A . A . A . Av .2 A1h . A7 . A .3 A3 . A7 .3 A4 .2 A6 .4 Ad .5 A3 . A7 .3 S7 . S3 . E Z F2 .8 B2 .a B .2 M N2 F5 J
.c P .2 J2 .3 U .4 P .a J .a S F5 . Fa . A .d A .g Ad .1f Ex .h A .4 A .2 Aa . A .3 A5 .4 P . A . A . A . A4 . Aa G
.2 A4 .5 A5 .4 A .h A15 .b P6 .f P2 .a7 P2 .c P .4m P .p Pb .4 P3 .57 Ac G A13 .5c P2 .a P .9 P .1m P4 . P5 .9 P .2
P .2 P2 .2 P .4 P .2 P . P2 .2 P .3 P .3 P2 .8 P3 .5 P . P .5 Pc .b P2 .2 P . P2 . P .i P .2 P2 .i P6 . P . P2 .3 P2
.5 P .2 P2 .4 P2 .b P2 .5 P2 .2 P .5 P2 . P . P2 .k P2 .5 P6 . P4 .2 P .4 P .2 P .2 P6 . P .2 P . P . P .6 P .3 P .6
P .a P2 .f P .2 P .4 P . P .4 P3 . P .b P2 .1c P3 .9 P .e P .e P .ac P2 .cv P3 .j P2 .1f P .4 P .4q A6d .6 A4 E3 A2
.c A12 . A .5 A .2 A1k .7 A .f E An .9 A7 . A7 . A7 . A7 . A7 . A7 . A7 . A7 . Ew .1b A .28 Cq . C2h .c C5y .16 S .4
C . C .p C9 E6 P K5 .2 C4 A P .3 C2e .2 E2 K2 C3 K2j . K4 .5 A17 . A2m .h Aw .1c Kg .47 P . P .1i K1b . K2g .4o C534
.1s Cg74 Awd .1v A1a .2 A7h .3 Ag Oa A2 .k A1b E4 . Ea . Av E2 A28 E2 .m A5x .k Ah E A3 E A4 E An E5 .4 E .j A1g .c
E2 A1e Ei .a Oa .6 Ei A6 .3 A . A2 E Oa As E8 .2 An Ed .c At .3 E4 A1b Ee .e A Oa .6 Cg Oa C5 . A15 Ee .9 A3 E A8 E2
.2 Oa .6 C2r .o C5 Ab E5 .2 A3 E2 .a A6 .2 A6 .2 A6 .9 A7 . A7 . A1m .6 A37 E8 . E2 .2 Oa .6 A8mc .c An .4 A1d .6is
Ca6 .2 C2y .12 A7 .c A5 .5 H E Ha . Hd . H5 . H . H2 . H2 . Ha A2q .x Aa3 .i A1s .2 A1i .14 Ac .4 Eg .3 M .c Eg .3
J2 .o J3 U . B . U .r A5 . A3r .2 F .7 B .4 U . B . Oa . U .5 Aq .4 J . Aq .b K1k E2 Av .3 A6 .2 A6 .2 A6 .2 A3 .s
F3 .4 Ac . Aq . Aj . A2 . Af .2 Ae .y A3f .1x A1h .3s E .3m At .3 A1d .f E .v Aw .d Au .5 A12 E5 .5 Au .2 A10 .4 A8
. A5 .16 A4e .2 Oa .6 A10 .4 A10 .4 A14 .8 A1g .c Ab . Af . A7 . A2 . Ab . Af . A7 . A2 .3 A1g .c A8n .9 Am .a A8 .o
A6 . A16 . A9 .1x A6 .2 A . A18 . A2 .3 A .2 An .a An .9 Av .1t Aj . A2 .a Am .a Aq .6 Aq .12 A1k .6 A2 .1s A E3 .
E2 .5 E4 A4 . A3 . At .2 E3 .4 E .w At .3 At .z A8 . As E2 .p A1i .a Am .a Aj .d Ai .32 A21 .1j A1f .d A1f .d A10 E4
.8 Oa .6 Oa As .3 E5 . An .6y A16 . E2 .3 A2 .g A6 .1e E6 At .a A .8 Am Eb .v Ai E4 .16 Al .r An .9 E3 A1h Ef .v Oa
E A2 E2 A .9 E4 A19 Eb .2 O .4 E .a O .2 Ap .7 Oa .6 E3 A10 Ee . Oa .4 A E2 A .8 Az E .2 A .9 E3 A1c Ee A4 .4 E4 .
E2 Oa A . A .z Ai . Ap Ec .6 E A2 E .1q A7 . A . A4 . Af . Aa .7 A1b Ec .5 Oa .6 E4 . A8 .2 A2 .2 Am . A7 . A2 . A5
. E2 A E7 .2 E2 .2 E3 .2 A .6 E .5 A5 E2 .2 E7 .3 E5 .b Aa . A .2 A . A12 . A E9 . E .2 E . E4 . E5 A E A .d E2 .t
A1h Ei A4 .5 Oa .4 E A3 .u A1c Ek A2 . A .8 Oa .4m A1b E7 .2 E9 .n A4 E2 .y A1c Eh .3 A .b Oa .12 A17 Ed A .7 Oa .6
Ok .s Cr .2 Cf .4 Oa C2 .3 C8 .55 A18 Ef .2t A1s Oa .l A8 .2 A .2 A8 . A2 . Ao E6 . E2 .2 E4 A E A E2 .c Oa .1y A8
.2 A13 E7 .2 E7 A . A E .r A Ea A14 E7 A E4 .8 E .8 A Eb A1a Eg .3 A .i A21 .2v E8 .2g Ax .f Oa .6 A9 . A11 E8 . E8
A .f Oa .o Au .2 Em . Ee .21 A7 . A2 . A12 E6 .3 E . E2 . E7 A E .8 Oa .6 A6 . A2 . Aw E5 . E2 . E5 A .7 Oa .6 A18
.4 Oa .6u Aj E4 .9 E2 A E Ad . Ay E7 .3 E5 .d Oa E .2d A .27 Apm .2u A33 .h A5g .218 A2p .f Ats Fg E A6 Ef .a A32z
.5 Ag7 .5a1 Au Ei Oa .1c6 Aft .7 Av . Oa .6 A27 . Oa .6 Au .2 E5 .b A1c E7 .9 A4 .c Oa .9 Al .5 Aj .c0 A19 .3 Oa .5i
A1s .w Ap .2 Ap .18 A23 .4 E A E1j .7 E4 Ad .1s A2 C2 E .b C7 .cmx K4 . K7 . K2 . K C7z K3 .f C .t C3 .2 K .e K4
.23c A2z .5 Ad .3 A9 .7 Aa .3 E2 . F4 .37w Oa .ee E1a .2 En .f2 E5 .3 E6 F8 E8 .2 E7 .u E4 .44 E3 .cb A2d . A1z . A2
.2 A .2 A2 .2 A4 . Ac . A . A7 . A1t . A4 .2 A8 . A7 . As . A4 . A5 . A .3 A7 . A9g .2 Ap . Ap . Av . Ap . Av . Ap .
Av . Ap . Av . Ap . A8 .2 O1e .e8 E1j .4 E1e .8 E .e E .m E5 . Ef .uo Av .6 A6 .5x E7 . Eh .2 E7 . E2 . E5 .5 A1q .x
E .34 A19 .3 E7 A7 .2 Oa .4 A .8x Au E .h A18 E4 Oa .d2 As E4 Oa .5y Au E2 A Oa .5h Av . A3 E A2 E A7 E2 A5 E .8 A2
.68 A7 . A4 . A2 . Af . A5h .b E7 .15 A1w E7 A .4 Oa .x2 A4 . Ar . A2 . A .2 A . Aa . A4 . A . A .6 A .4 A . A . A .
A3 . A2 . A .2 A . A . A . A . A . A2 . A .2 A4 . A7 . A4 . A4 . A . Aa . Ah .5 A3 . A5 . Ah .94 P .13 P4 .2s Pc .f
P2 .f P .e P2 .11 Pa .1c Aq .6 Aq .6 G2 Ac G2 Aa .4 P .2 Pa .k P1j Iq C Pf .a P .k P .2 P9 . P4 .9 Pn .6 P58 .2 P34
.2 P2 . P3 .2 P2b .2 P3 . P4 E5 P72 . P1r .b P6 . Po .7 P2 .2 P8 .c P .2 P4 .2 P .4 P2 .d P2 .2 P .8 P2 .9 P .5 P3
.c P3 .8 P3 .2 P . P .4 P .6 P .3 P .6 P2e .1c P1y .5 P8 .2 Ph .3 P . P6 .2 Pd .64 Pl .r P4 .1k P8 .a P6 .14 P8 .u
P2 .c P4 .2 Pe .9 P13 .c P1b . Pa . P55 .2g P8 .e P42 .6o Oa .6 Pse .2 Cwyo .w C3dq .2 C4ge .2 C5rl .f Cha .1wi Cf2
.15u C3t7 .5 C6ju .f5vr F .u E2o .3k E6o
"""

# Of COMPLEX characters, in base 36: how many are skipped, how many follow. They extend a grapheme as spacing marks (S), as others (E), or
# link consonants (L); or they are consonants (C).
_MARKS: Final = """
E2sx S1 E0+7 Ec+8 E2q S1 E0+9 Eb+7 C8h+17 E2+4 S0 E0+6 L1 E0 S0+2 E0+2 C0 Cg+6 S0+2 E0+2 C0+4 E0+3 C0 C3+2 C7+3 E0+4
C0+d E0 S1 E0+2 E6 C0 Ee C1cy+1g E0+2 S0 E0+7 S0+8 E0 S0+2 E0+9 L0 E0 E9 Cg2+1h S0 E0 S0 E0+7 L1 E1 E2+8 S0+6 E0+a
Csbn+5 E0 C1+9 Ca+5 C2p+g C1+3 C6 E1 C1+2 E1c E1+3 E2+2 E5+2 E1 Elej S0 E0 E2+4 S0 E0+5 Ehj8+2
"""
_EXTENDS, _CONSONANT, _LINKER, _CONJOINS = 1, 2, 4, 8
_MARK_KINDS: Final = {
    "S": _EXTENDS,
    "E": _EXTENDS | _CONJOINS,
    "L": _EXTENDS | _LINKER | _CONJOINS,
    "C": _CONSONANT,
}
LANGUAGES: Final = {1: "thai", 2: "lao", 3: "khmer", 4: "burmese", 5: "cj"}
"""The dictionaries of the languages in complex_scripts.h."""


@cache
def segment_kinds() -> npt.NDArray[np.uint8]:
    """For each character what it is to word boundaries."""
    runs = _RUNS.split()
    lengths = np.array([int(run[1:] or "1", 36) for run in runs])
    found = np.zeros(CHARACTERS, np.uint8)
    found[: lengths.sum()] = np.repeat(np.array([_KINDS[run[0]] for run in runs], np.uint8), lengths)
    found.flags.writeable = False
    return found


@cache
def complex_marks() -> npt.NDArray[np.uint8]:
    """For each character of a script without spaces what it is to graphemes, as complex_scripts.h has it."""
    found = np.zeros(CHARACTERS, np.uint8)
    at = 0
    for run in _MARKS.split():
        skipped, _, count = run[1:].partition("+")
        start = at + int(skipped, 36)
        at = start + int(count or "1", 36)
        found[start:at] = _MARK_KINDS[run[0]]
    found.flags.writeable = False
    return found
