"""The functions of filters and projections give what pylance gives: the same values in the same types, and the same refusals.

A line holds expressions of one family, set apart by " ;; ".
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import LanceletError
from lancelet.expressions.evaluate import evaluate
from lancelet.expressions.printing import to_sql
from lancelet.expressions.sql import parse_expression

NAN = math.nan
STAMPS = [dt.datetime(2020, 1, 2, 3, 4, 5, 678901), dt.datetime(1969, 12, 31, 23, 59, 59), None]
STAMPS += [dt.datetime(2024, 2, 29), dt.datetime(2021, 11, 7, 1, 30), dt.datetime(1900, 1, 1, 12)]
WHOLE = [stamp and stamp.replace(microsecond=0) for stamp in STAMPS]
DAYS = [stamp and stamp.date() for stamp in STAMPS]
LISTS = [[1, 2, 2, 3], [], None, [None, 5, None], [7], [3, 1, 2]]
TABLE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "i": pa.array([1, -3, None, 7, 0, 12], pa.int32()),
        "n": pa.array([2, 3, 1, None, 2, 1], pa.int64()),
        "u8": pa.array([1, 0, None, 255, 4, 5], pa.uint8()),
        "f": pa.array([1.5, -0.0, None, NAN, math.inf, -2.5]),
        "f32": pa.array([1.5, -0.0, None, NAN, 100.25, -2.5], pa.float32()),
        "dec": pa.array([Decimal("1.50"), Decimal("-0.01"), None, Decimal("99.99"), Decimal(0), Decimal(7)]),
        "b": pa.array([True, False, None, True, False, True]),
        "s": pa.array(["abc", "", None, "a,b,c", "Été a1", "aaaa"]),
        "ls": pa.array(["abc", "", None, "a,b,c", "x_y", "b"], pa.large_string()),
        "pat": pa.array(["b", "", "a", None, r"\w+", "^(a+)+$"]),
        "moment": pa.array(
            ["2020-01-02", "2020-01-02T03:04:05", None, "1999-12-31 23:59:59.5", "2024-02-29", "1970-01-01"]
        ),
        "bin": pa.array([b"abc", b"", None, b"\xff\x00", b"YWJj", b"616263"]),
        "hex": pa.array(["616263", "", None, "ff", "00", "FF"]),
        "d": pa.array(DAYS, pa.date32()),
        "d64": pa.array(DAYS, pa.date64()),
        "t": pa.array(STAMPS, pa.timestamp("us")),
        "ts": pa.array(WHOLE, pa.timestamp("s")),
        "tn": pa.array(STAMPS, pa.timestamp("ns")),
        "tz": pa.array(WHOLE, pa.timestamp("us", "America/New_York")),
        "time": pa.array([dt.time(1, 2, 3), dt.time(0), None, dt.time(23, 59, 59, 5), dt.time(7), dt.time(8)]),
        "dur": pa.array([1, 0, None, -5, 60, 3600], pa.duration("s")),
        "dic": pa.array(["x", "y", None, "x", "z", ""]).dictionary_encode(),
        "l": pa.array(LISTS, pa.list_(pa.int64())),
        "m": pa.array([[2, 9], [], [1], None, [None], [3]], pa.list_(pa.int64())),
        "lf": pa.array([[1.5, NAN], [], None, [-0.0, 0.0, None], [NAN, NAN], [2.0, 1.0]], pa.list_(pa.float64())),
        "lt": pa.array([["a", "b"], [], None, [None, "c"], ["", "a"], ["b", "a", "b"]], pa.list_(pa.string())),
        "lb": pa.array([[True], [], None, [None, False], [True, True], [False]], pa.list_(pa.bool_())),
        "big": pa.array(LISTS, pa.large_list(pa.int64())),
        "ll": pa.array([[[1], [2, 3]], [], None, [None, [5]], [[]], [[1], [1]]], pa.list_(pa.list_(pa.int64()))),
        "v": pa.array([[1, 2], [3, 4], None, [0, 0], [-1, 1], [5, 5]], pa.list_(pa.float32(), 2)),
        "st": pa.array([{"x": 1, "y": "a"}, {"x": None, "y": ""}, None, {"x": 3, "y": None}, {"x": 4, "y": "b"}, None]),
        "mp": pa.array(
            [[("a", 1), ("b", None)], [], None, [("c", 3)], [("a", 4)], [("", 0)]], pa.map_(pa.string(), pa.int64())
        ),
    }
)


AGREED = r"""
regexp_like(s,'A','i') ;; regexp_like(s,'a b','x') ;; regexp_like(s,'a',NULL) ;; regexp_like(s,NULL)
regexp_like(s,'') ;; regexp_like(s,'a','') ;; regexp_like(s,'a','U') ;; regexp_like(s,s) ;; regexp_like('abc',s)
regexp_match(s,'a','i') ;; regexp_match(s,'(a)(z)?(b)') ;; regexp_match(s,'(a)(z*)') ;; regexp_match(s,'')
regexp_match(s,'a','x') ;; regexp_match(s,NULL) ;; regexp_match(s,s) ;; regexp_match(s,'(?:a)b')
regexp_match(s,'A','i')
regexp_replace(s,'a','<$0>') ;; regexp_replace(s,'(a)','<\1>') ;; regexp_replace(s,'(a)','<$1>')
regexp_replace(s,'(a)','<${1}x>') ;; regexp_replace(s,'(a)','$1x') ;; regexp_replace(s,'(?P<n>a)','<$n>')
regexp_replace(s,'a','$$') ;; regexp_replace(s,'a','\') ;; regexp_replace(s,'a','\\')
regexp_replace(s,'a','\q') ;; regexp_replace(s,'','-') ;; regexp_replace(s,'','-','g')
regexp_replace(s,'B','-','i') ;; regexp_replace(s,'b*','-','g') ;; regexp_replace(s,'[bc]','-','gi')
regexp_replace(s,'a',NULL) ;; regexp_replace(s,'a',s) ;; regexp_replace(s,s,'-') ;; regexp_replace(s,'a','$')
regexp_replace(s,'a','$x') ;; regexp_replace(s,'a','\9') ;; regexp_replace(s,'a','x','x')
regexp_replace(s,'a','\0') ;; regexp_replace(s,'a', 'b', NULL) ;; regexp_replace(s,'^a','b')
regexp_replace(s,'^','b')
regexp_count(s,'a') ;; regexp_count(s,'') ;; regexp_count(s,'b*') ;; regexp_count(s,'a',2)
regexp_count(s,'A',1,'i') ;; regexp_count(s,NULL) ;; regexp_count(s,'a',NULL) ;; regexp_count(s,'^a',2)
regexp_count(s,s) ;; regexp_count(s, 'a', 100)
regexp_instr(s,'b') ;; regexp_instr(s,'b',2) ;; regexp_instr(s,'b',3) ;; regexp_instr(s,'[a-z]',1,2)
regexp_instr(s,'[a-z]',2,2) ;; regexp_instr(s,'B',1,1,'i') ;; regexp_instr(s,'a(.)',1,1,'',1)
regexp_instr(s,'a(.)',1,1,'',2) ;; regexp_instr(s,'') ;; regexp_instr(s,NULL) ;; regexp_instr(s,s)
regexp_instr(s,'^b',2) ;; regexp_instr(s,'b*',1,2) ;; regexp_instr(s,'a(z)?(.)',1,1,'',2)
regexp_like(s,'\w+$') ;; regexp_like(s,'^\W') ;; regexp_match(s,'(\w+) (\w)(\d)') ;; regexp_replace(s,'\s','_')
regexp_count(s,'\w') ;; regexp_like(s,'[\s\S]') ;; regexp_like(s, pat) ;; regexp_match(s, pat)
regexp_replace(s, pat, '-') ;; regexp_count(s, pat) ;; regexp_instr(s, pat) ;; regexp_replace(ls,'b','x')
regexp_match(ls,'b') ;; regexp_like('aab', pat) ;; regexp_like(dic,'x') ;; regexp_like(s,'\p{Lu}')
regexp_like(s,'[^a-z,]') ;; regexp_like(s,'a{2}') ;; regexp_like(s,'(?x) a , b # c') ;; regexp_like(s,'\u00c9')
regexp_like(s,'[[:alpha:]]') ;; regexp_like(s,'a$','m') ;; s LIKE pat ;; s LIKE s ;; s ILIKE pat
regexp_instr(s,'t',1,1) ;; regexp_instr(s,'a',1,2) ;; regexp_match(s,'(z)?')
regexp_replace(s,'(?<n>a)','[${n}]') ;; regexp_like(s,'[\W]')
array_append(l,4) ;; array_append(l,n) ;; array_append(l,NULL) ;; array_append(lt,'z') ;; array_append(big,1)
array_append(l,1.5) ;; array_append(ll,[1]) ;; array_prepend(4,l) ;; array_prepend(n,l) ;; array_prepend(NULL,l)
array_prepend('z',lt) ;; array_prepend(1,big) ;; list_append(l,4) ;; array_push_back(l,4)
list_push_front(4,l) ;; array_append(NULL, 1) ;; array_prepend(1, NULL) ;; array_append([1,2], n)
array_concat(l,m) ;; array_concat(l,m,l) ;; array_concat(l,[9]) ;; array_cat(lt,['q']) ;; array_concat(l)
array_concat(big,l) ;; array_concat(v,v) ;; array_concat(ll,ll) ;; array_concat(l,lf) ;; list_concat(m,l)
array_pop_front(l) ;; array_pop_back(l) ;; array_pop_front(v) ;; array_pop_back(big) ;; array_reverse(l)
array_reverse(v) ;; array_reverse(big) ;; array_reverse(ll) ;; array_compact(l) ;; array_compact(lt)
array_compact(v) ;; array_pop_back([1,2])
array_slice(l,1,2) ;; array_slice(l,2,3) ;; array_slice(l,-2,-1) ;; array_slice(l,0,2) ;; array_slice(l,2,0)
array_slice(l,1,4,2) ;; array_slice(l,4,1,-1) ;; array_slice(l,3,1,-1) ;; array_slice(l,-1,1,-1)
array_slice(l,n,3) ;; array_slice(l,1,n) ;; array_slice(l,NULL,2) ;; array_slice(l,1,100)
array_slice(l,-100,2) ;; array_slice(l,5,6) ;; array_slice(big,1,2) ;; array_slice(v,1,1) ;; array_slice(l,2,1)
array_slice(l,1,-1) ;; array_slice(l,-1,-2,-1) ;; array_slice(l,1,-100)
array_resize(l,3) ;; array_resize(l,3,0) ;; array_resize(l,0) ;; array_resize(l,n) ;; array_resize(l,n,id)
array_resize(l,NULL) ;; array_resize(big,2,1) ;; array_resize(v,3) ;; array_resize(lt,2,'z')
array_repeat(i,2) ;; array_repeat(i,n) ;; array_repeat(s,-1) ;; array_repeat(l,2) ;; array_repeat(NULL,2)
array_repeat(1,n) ;; array_repeat(i,NULL) ;; flatten(ll) ;; flatten(l) ;; flatten(big) ;; flatten(v)
array_remove(l,2) ;; array_remove(l,n) ;; array_remove(l,NULL) ;; array_remove(lt,'b') ;; array_remove(lf,0.0)
array_remove_n(l,2,1) ;; array_remove_n(l,2,0) ;; array_remove_n(l,2,n) ;; array_remove_n(l,2,-1)
array_remove_all(l,2) ;; array_remove_all(l,NULL) ;; array_remove_all(ll,[1]) ;; array_remove(big,2)
array_remove(v,1) ;; array_remove_all(l,i) ;; list_remove(l,2) ;; array_remove(l, 2.0)
array_remove_n(l,2,NULL)
array_replace(l,2,9) ;; array_replace(l,2,NULL) ;; array_replace(l,NULL,9) ;; array_replace_n(l,2,9,1)
array_replace_n(l,2,9,n) ;; array_replace_n(l,2,9,-1) ;; array_replace_all(l,2,9) ;; array_replace_all(l,n,id)
array_replace_all(lt,'b','q') ;; array_replace_all(ll,[1],[7]) ;; array_replace(big,2,9) ;; array_replace(v,1,9)
array_replace_n(l,2,9,0) ;; array_replace(l, 2, 1.5)
array_distinct(l) ;; array_distinct(lt) ;; array_distinct(lf) ;; array_distinct(ll) ;; array_distinct(big)
array_distinct(v) ;; array_distinct(lb) ;; array_union(l,m) ;; array_union(l,[9]) ;; array_union(l,NULL)
array_union(lt,lt) ;; array_union(lf,lf) ;; array_union(l,[]) ;; array_intersect(l,m) ;; array_intersect(l,[1])
array_intersect(l,NULL) ;; array_intersect(lt,['a']) ;; array_intersect(l,[]) ;; array_except(l,m)
array_except(l,[1]) ;; array_except(l,NULL) ;; array_except(l,[]) ;; array_except(lf,[1.5])
array_union(big,big) ;; array_except(ll,ll) ;; array_union(ll,ll) ;; array_union(v,v)
array_sort(l) ;; array_sort(l,'DESC') ;; array_sort(l,'DESC','NULLS LAST') ;; array_sort(l,'ASC','NULLS LAST')
array_sort(l,'ASC','NULLS FIRST') ;; array_sort(lt) ;; array_sort(lf) ;; array_sort(lf,'DESC')
array_sort(big) ;; array_sort(v,'desc') ;; array_sort(l,NULL) ;; array_sort(lb) ;; list_sort(l) ;; array_max(l)
array_min(l) ;; array_max(lf) ;; array_min(lf) ;; array_max(lt) ;; array_min(lt) ;; array_max(lb)
array_max(big) ;; array_min(v) ;; list_max(l) ;; array_any_value(l) ;; array_any_value(lt)
array_any_value(big) ;; array_any_value(v)
array_position(l,2) ;; array_position(l,n) ;; array_position(l,NULL) ;; array_position(l,5,1)
array_indexof(lt,'b') ;; list_position(big,2) ;; array_position(v,1) ;; array_position(ll,[1])
array_positions(l,2) ;; array_positions(l,NULL) ;; array_positions(lt,'b') ;; array_positions(big,2)
array_positions(v,5) ;; array_positions(l,i) ;; arrays_zip(l,m) ;; arrays_zip(l,lt,m) ;; arrays_zip(l)
list_zip(l,[1]) ;; arrays_zip(l,big) ;; arrays_zip(v,l) ;; arrays_zip(l,NULL)
acosh(f) ;; asinh(f) ;; atanh(f) ;; cosh(f) ;; sinh(f) ;; tanh(f) ;; cbrt(f) ;; cot(f) ;; degrees(f)
radians(f) ;; atan2(f,f) ;; atan2(i,2) ;; atan2(f32,f32) ;; acosh(f32) ;; cosh(i) ;; cbrt(dec) ;; degrees(i)
cot(0) ;; cosh(f32) ;; cbrt(f32) ;; degrees(f32) ;; atan2(f32,f) ;; tanh(f32) ;; cot(f32) ;; radians(f32)
factorial(n) ;; factorial(20) ;; factorial(NULL) ;; gcd(i,n) ;; gcd(n,12) ;; gcd(0,0) ;; lcm(i,n) ;; lcm(n,0)
gcd(u8,i) ;; lcm(i,2) ;; nanvl(f,1.0) ;; nanvl(f32,1.0) ;; nanvl(f,f32) ;; nanvl(i,1) ;; nanvl(f,NULL)
to_hex(i) ;; to_hex(u8) ;; to_hex(n) ;; to_hex(-1) ;; gcd(-4,6)
md5(s) ;; md5(bin) ;; md5(ls) ;; sha224(s) ;; sha256(s) ;; sha384(ls) ;; sha512(bin) ;; digest(s,'md5')
digest(s,'sha256') ;; digest(s,'blake2b') ;; digest(s,'blake2s') ;; digest(bin,'sha512') ;; md5(NULL)
sha256(dic) ;; md5('abc')
encode(s,'hex') ;; encode(bin,'hex') ;; encode(bin,'base64') ;; encode(ls,'base64') ;; decode(hex,'hex')
encode(NULL,'hex') ;; decode('YWJj','base64') ;; decode('YWI=','base64') ;; encode(bin,'base64pad')
decode('YWI=','base64pad') ;; encode(ls,'hex')
levenshtein(s,'abd') ;; levenshtein(s,NULL) ;; levenshtein(s,pat) ;; levenshtein(ls,'a') ;; overlay(s,'x',1,1)
overlay(s,'xyz',2) ;; overlay(s,'x',2,0) ;; overlay(s,'x',10) ;; overlay(s,NULL,1) ;; overlay(s,'x',1,100)
overlay(s,'x',2,-1) ;; overlay(ls,'x',1)
translate(s,'abc','xyz') ;; translate(s,'abc','x') ;; translate(s,'aé','e') ;; translate(s,'','x')
translate(s,'aa','xy') ;; translate(s,NULL,'x') ;; translate(s,s,'q') ;; translate(ls,'b','c')
find_in_set(s,'a,abc,') ;; find_in_set('b',s) ;; find_in_set(s,NULL) ;; find_in_set(s,s) ;; find_in_set(s,'')
substr_index(s,',',1) ;; substr_index(s,',',2) ;; substr_index(s,',',-1) ;; substr_index(s,',',-2)
substr_index(s,',',0) ;; substr_index(s,'',1) ;; substr_index(s,',',n) ;; substring_index(s,'a',2)
substr_index(s,',',100) ;; substr_index(ls,',',1)
chr(65) ;; chr(u8) ;; chr(0) ;; chr(n) ;; left(s,2) ;; left(s,-1) ;; left(ls,1) ;; left(s,n) ;; left(s,0)
right(s,2) ;; right(s,-1) ;; right(s,0) ;; right(ls,1) ;; right(s,n) ;; left(s,NULL) ;; ascii(s) ;; ascii('é')
reverse(s) ;; initcap(s) ;; lpad(s,n) ;; rpad(s,4,pat) ;; repeat(s,n) ;; split_part(s,',',n) ;; left(s, -10)
bit_length(ls) ;; strpos(s,'') ;; strpos(s,NULL) ;; strpos(ls,'b') ;; contains(s,ls) ;; starts_with(s,pat)
replace(s,pat,'x') ;; upper(ls) ;; initcap(ls) ;; btrim(ls,'a') ;; replace(ls,'a','b') ;; split_part(ls,',',1)
lpad(ls,4) ;; repeat(ls,2) ;; reverse(ls) ;; concat(ls,s)
arrow_typeof(i) ;; arrow_typeof(s) ;; arrow_typeof(ls) ;; arrow_typeof(f) ;; arrow_typeof(f32)
arrow_typeof(dec) ;; arrow_typeof(d) ;; arrow_typeof(d64) ;; arrow_typeof(t) ;; arrow_typeof(ts)
arrow_typeof(tn) ;; arrow_typeof(tz) ;; arrow_typeof(time) ;; arrow_typeof(dur) ;; arrow_typeof(dic)
arrow_typeof(l) ;; arrow_typeof(big) ;; arrow_typeof(ll) ;; arrow_typeof(v) ;; arrow_typeof(st)
arrow_typeof(mp) ;; arrow_typeof(bin) ;; arrow_typeof(b) ;; arrow_typeof(u8) ;; arrow_typeof(NULL)
arrow_cast(NULL,'FixedSizeList(32, Float32)') ;; arrow_cast(NULL,'FixedSizeList(32 x Float32)')
arrow_cast(s,'Dictionary(Int32, Utf8)') ;; arrow_cast(i,'Dictionary(Int8, Int64)')
arrow_cast(NULL,'Interval(MonthDayNano)') ;; arrow_cast(l,'LargeList(Int32)') ;; arrow_cast(i,'Decimal32(5,1)')
arrow_cast(i,'Decimal64(5,1)') ;; arrow_cast(l,'List(Float32)') ;; arrow_cast(l,'List(nullable Float32)')
arrow_cast(v,'List(Float32)') ;; arrow_cast(i,'Utf8View') ;; arrow_cast(NULL,'Null')
arrow_cast(v,'FixedSizeList(2 x Float64)') ;; arrow_cast(v,'FixedSizeList(2, Float64)')
arrow_cast(i,'Timestamp(Second, Some("+01:00"))') ;; arrow_cast(i,'Timestamp(s)')
arrow_cast(i,'Timestamp(s, "UTC")') ;; arrow_cast(i,'Int32 ') ;; arrow_cast(s,'LargeUtf8')
arrow_cast(bin,'BinaryView') ;; arrow_cast(NULL,'FixedSizeBinary(4)') ;; arrow_cast(i,'Decimal128(10, 2)')
arrow_cast(i,'Decimal256(50, 2)') ;; arrow_cast(i,'Float16')
arrow_cast(st,'Struct("x": Int32, "y": LargeUtf8)') ;; arrow_cast(st,'Struct("y": Utf8, "x": Int64)')
arrow_cast(ll,'List(List(Int32))')
arrow_try_cast(s,'Int64') ;; arrow_try_cast(s,'Date32') ;; arrow_cast(i,'List(Int32)') ;; arrow_cast(dic,'Utf8')
arrow_cast(NULL, 'LargeListView(Int8)') ;; arrow_cast(i,'Duration(s)') ;; arrow_cast(NULL,'Struct()')
CAST(i AS INT ARRAY) ;; CAST(NULL AS INT ARRAY) ;; CAST(i AS INTEGER) ;; TRY_CAST(s AS INT ARRAY)
named_struct('a',i) ;; named_struct('a',1) ;; named_struct('a',1,'b','x') ;; struct(1,2) ;; struct(i,s)
row(1) ;; named_struct('a',l,'b',st) ;; named_struct('a',1)['a'] ;; get_field(named_struct('a',i),'a')
struct(NULL) ;; struct(struct(1)) ;; make_array(struct(i)) ;; make_array(l,m) ;; make_array()
coalesce(st, st) ;; coalesce(l,m) ;; l IN ([1,2,2,3])
array_to_string(l,',') ;; array_to_string(l,',','n') ;; array_to_string(lt,'-') ;; array_to_string(lf,',')
array_to_string(ll,',') ;; array_to_string(l,NULL) ;; array_to_string(l,s) ;; array_to_string(l,',',s)
array_join(lb,',') ;; list_to_string(big,'') ;; array_to_string(v,',') ;; string_to_array(s,',')
string_to_array(s,NULL) ;; string_to_array(s,',','b') ;; string_to_array(s,'') ;; string_to_array(s,pat)
string_to_list(ls,',') ;; string_to_array(s,',',NULL) ;; string_to_array('a,b',',')
range(n) ;; range(1,n) ;; range(1,10,n) ;; range(5,1,-2) ;; range(NULL) ;; generate_series(1,n)
generate_series(5,1,-2) ;; generate_series(1,5,2) ;; generate_series(n) ;; range(1,1) ;; generate_series(1,1)
generate_series(2,1) ;; range(i)
array_distance(v,v) ;; array_distance(v,[1.0,2.0]) ;; cosine_distance(v,[1.0,0.0]) ;; inner_product(v,v)
dot_product(v,[1.0,1.0]) ;; array_normalize(v) ;; array_ndims(l) ;; array_ndims(ll) ;; array_dims(l)
array_dims(ll) ;; list_distance(v,v) ;; list_ndims(v) ;; array_dims(v) ;; inner_product(l,l)
map_keys(mp) ;; map_values(mp) ;; map_entries(mp) ;; map_extract(mp,'a') ;; element_at(mp,'a')
map_extract(mp,s) ;; cardinality(mp) ;; cardinality(l) ;; cardinality(ll) ;; map_extract(mp,1)
map_keys(map(['a'],[1])) ;; map([1],[2]) ;; array_length(l,1) ;; map_keys(mp)[1]
to_unixtime(t) ;; to_unixtime(d) ;; to_unixtime(ts) ;; to_unixtime(tn) ;; to_unixtime(tz)
to_unixtime('2020-01-02') ;; to_unixtime(i) ;; from_unixtime(i) ;; from_unixtime(n,'UTC') ;; from_unixtime(NULL)
to_unixtime(d64)
make_date(2020,1,n) ;; make_date(2024,2,29) ;; make_date(NULL,1,1) ;; make_date(1969,12,31) ;; make_time(1,2,n)
make_time(NULL,1,1) ;; to_local_time(t) ;; to_local_time(tz) ;; to_local_time(ts) ;; make_date(2020, n, 2)
to_char(t,'%Y-%m-%d %H:%M:%S') ;; to_char(d,'%Y/%m/%d') ;; to_char(ts,'%j') ;; to_char(tz,'%H:%M')
to_char(t,NULL) ;; to_char(t,'%a %b %e %y') ;; date_format(t,'%d') ;; to_char(t,'%F %T') ;; to_char(tn,'%S')
to_char(t,'%p %I') ;; to_char(t,'x') ;; to_char(d64,'%Y') ;; to_char(t, '')
to_char(t, '%A %B %u %w %C %h %D %R %%')
date_bin(interval '1 day', t) ;; date_bin(interval '15 minutes', ts) ;; date_bin(interval '1 hour', tn)
date_bin(interval '1 day', t, timestamp '2000-01-01 12:00:00') ;; date_bin(interval '7 days', d)
date_bin(interval '1 day', NULL) ;; date_bin(interval '1 day 1 hour', t)
date_bin(interval '1 day', '2020-01-02')
date_trunc('week', d) ;; date_trunc('quarter', t) ;; date_trunc('millisecond', t) ;; date_trunc('year', tz)
date_part('isodow', t) ;; date_part('nanosecond', tn) ;; date_part('epoch', d) ;; to_date(moment)
to_timestamp(moment) ;; to_timestamp_seconds(moment) ;; to_timestamp(t) ;; to_date(t) ;; to_date(i)
to_timestamp_millis(t) ;; to_timestamp_nanos(ts) ;; to_timestamp(tz) ;; date_part('isoyear', d)
to_time('01:02:03') ;; to_date('2020-01-02') ;; now() > tn ;; arrow_typeof(now())
arrow_typeof(current_time()) ;; arrow_typeof(current_timestamp) ;; arrow_typeof(current_date)
arrow_typeof(current_time) ;; arrow_typeof(uuid()) ;; random() < 2 ;; length(uuid())
to_char(t,'%f') ;; to_char(tn,'%f') ;; to_char(t,'%Y-%m-%d %H:%M:%S.%f') ;; to_char(t,'%.3f') ;; to_char(t,'%3f')
to_char(ts,'%f') ;; to_char(t,'%.f') ;; to_char(d,'%f') ;; to_char(t,'%6f') ;; to_char(t,'%9f') ;; to_char(t,'%.6f')
to_char(time,'%f') ;; to_char(time,'%H:%M:%S%.f') ;; to_char(t,'%%f') ;; to_char(t,'%H%.f|%S%3f%n') ;; to_char(tz,'%S.%f')
date_bin(INTERVAL '1 month',t) ;; date_bin(INTERVAL '3 months',t) ;; date_bin(INTERVAL '2 months',tn)
date_bin(INTERVAL '1 year',t,TIMESTAMP '2001-03-05') ;; date_bin(INTERVAL '1 month',t,TIMESTAMP '2020-01-31')
date_bin(INTERVAL '1 month',d) ;; date_bin(INTERVAL '1 month',tz) ;; date_bin(INTERVAL '1 day',tz)
date_bin(INTERVAL '5 months',t,TIMESTAMP '2020-01-31T12:00:00.5') ;; date_bin(INTERVAL '7 month',ts,TIMESTAMP '1900-05-31')
to_timestamp(f) ;; to_timestamp(1.5) ;; to_timestamp(f32) ;; to_timestamp(dec) ;; to_timestamp(-1.25) ;; to_timestamp(1e300)
to_timestamp_seconds(1.9) ;; to_timestamp_seconds(-1.9) ;; to_timestamp_millis(dec) ;; to_timestamp_nanos(1.5)
concat_ws(s,'a','b') ;; concat_ws(pat,s,ls) ;; concat_ws(s,i,n) ;; concat_ws(pat,s,NULL) ;; concat_ws(dic,s,s)
concat_ws(pat,'x') ;; concat_ws(i,s,s) ;; concat_ws(pat,NULL,s,'y')
array_length(l,2) ;; array_length(l,n) ;; array_length(l,0) ;; array_length(l,NULL) ;; array_length(l,-1) ;; array_length(v,n)
l = m ;; l <> m ;; l < m ;; l >= m ;; lt = lt ;; ll = ll ;; ll <> ll ;; v = v ;; v < v ;; big = big ;; l = big ;; l = lf
l IS DISTINCT FROM m ;; l IS NOT DISTINCT FROM l ;; l < lf ;; lf = lf ;; lf < lf ;; lb = lb ;; l < [3] ;; [3] > m
lt > ['a'] ;; l > array_append(m,NULL) ;; array_append(m,1) < array_append(m,NULL) ;; l BETWEEN m AND [9] ;; l IN ([7], m)
st = st ;; st <> st ;; st < st ;; nullif(st,st) ;; greatest(st,st) ;; least(st,NULL) ;; array_max(array_repeat(st,2))
nullif(l,m) ;; nullif(l,l) ;; nullif(l,[7]) ;; nullif(v,v) ;; greatest(l,m) ;; least(l,m) ;; least(lt,['a'])
greatest(l,m,[4]) ;; greatest(v,v) ;; greatest(big,big) ;; greatest(l,lf) ;; least(ll,ll) ;; greatest(lf,lf)
least(array_append(m,NULL),array_append(m,1)) ;; greatest(array_append(m,NULL),array_append(m,1))
array_max(ll) ;; array_min(ll) ;; array_min(make_array(l,m)) ;; array_max(make_array(l,m))
to_date('2020/01/02','%Y/%m/%d') ;; to_date('02.03.2020','%Y/%m/%d','%d.%m.%Y') ;; to_date('9999-12-31','%Y-%m-%d')
to_date(moment,'%Y-%m-%d','%Y-%m-%dT%H:%M:%S','%Y-%m-%d %H:%M:%S%.f') ;; to_date('05/06/24','%m/%d/%y') ;; to_date('05/06/74','%D')
to_date('3 May 2021','%d %b %Y') ;; to_date('3 september 2021','%d %B %Y') ;; to_date('2020-060','%Y-%j') ;; to_date(i,'%Y')
to_date('20200102','%Y%m%d') ;; to_date('1-2-2020','%m-%e-%Y') ;; to_date('820-01-02','%Y-%m-%d')
to_timestamp('2020/01/02 03:04:05','%Y/%m/%d %H:%M:%S') ;; to_timestamp_seconds('2020/01/02 03:04:05','%Y/%m/%d %H:%M:%S')
to_timestamp_millis('02.03.2020 01:02:03.5','%Y','%d.%m.%Y %H:%M:%S%.f') ;; to_timestamp_nanos('2020-01-02','%Y-%m-%d')
to_timestamp_micros('02.03.2020 01:02:03.123456','%d.%m.%Y %H:%M:%S.%f') ;; to_timestamp('1577934245','%s') ;; to_timestamp(t,'%Y')
to_timestamp('2020-01-02T03:04:05+02:00','%Y-%m-%dT%H:%M:%S%z') ;; to_timestamp('2020-01-02T03:04:05-0230','%Y-%m-%dT%H:%M:%S%z')
to_timestamp('2020-01-02T03:04:05-02:30','%FT%T%:z') ;; to_timestamp('2020-01-02 3:04 PM','%Y-%m-%d %I:%M %p')
to_timestamp('2020-01-02 12:04 am','%F %I:%M %p') ;; to_timestamp('2020-01-02 12:30','%Y-%m-%d %H:%M') ;; to_timestamp('100%2020-01-02','100%%%F')
to_timestamp('2020-01-02 12:30:10.123','%F %T%.3f') ;; to_timestamp('2020-01-02 12:30:10','%F %T%.f')
to_timestamp_seconds('1969-12-31 23:59:58.5','%F %T%.f') ;; to_timestamp_millis('1969-12-31 23:59:58.5005','%F %T%.f')
to_timestamp(moment,'%Y-%m-%d','%FT%T','%F %T%.f')
range(DATE '2020-01-01',DATE '2020-01-05',INTERVAL '1 day') ;; range(DATE '2020-01-05',DATE '2020-01-01',INTERVAL '-1 day')
range(DATE '2020-01-01',DATE '2020-06-01',INTERVAL '1 month') ;; generate_series(DATE '2020-01-31',DATE '2020-05-31',INTERVAL '1 month')
range(d,NULL,INTERVAL '1 day') ;; generate_series(d,d,INTERVAL '1 day') ;; generate_series(d,DATE '2020-01-01',INTERVAL '10 year')
generate_series(d64,DATE '2020-01-01',INTERVAL '1 year 2 months 3 days') ;; range(DATE '2020-01-01','2020-01-03',INTERVAL '1 day')
range(t,TIMESTAMP '2020-01-01',INTERVAL '5000 days') ;; range(TIMESTAMP '2020-01-01',t,INTERVAL '700 days')
generate_series(TIMESTAMP '2020-06-30',TIMESTAMP '2020-01-03',INTERVAL '-1 month') ;; range(DATE '2020-01-05',DATE '2020-01-01',INTERVAL '1 day')
range(TIMESTAMP '2020-01-01',TIMESTAMP '2020-01-03',INTERVAL '1 day 12 hours')
"""

REFUSED = r"""
regexp_like(s,'a','g') ;; regexp_like(s,'a','q') ;; regexp_like(s,'(') ;; regexp_like(s,'a','ig')
regexp_like(s,'a',s)
regexp_match(s,'a','g') ;; regexp_match(s,'(')
regexp_replace(s,'a','b','q')
regexp_count(s,'a',0) ;; regexp_count(s,'a',i) ;; regexp_count(s,'(') ;; regexp_count(s,'a',1,'g')
regexp_instr(s,'b',0) ;; regexp_instr(s,'b',1,0) ;; regexp_instr(s,'b',NULL) ;; regexp_instr(s,'b',i)
regexp_like(s,'a{') ;; regexp_like(s,'(?=a)') ;; regexp_like(s,'(a)\1') ;; regexp_like(s,'\Qa\E')
regexp_like(s) ;; regexp_like(i,'a')
array_append(l,'x') ;; array_append(i,1)
array_concat(l,NULL) ;; array_concat(l,lt)
array_reverse(s)
array_slice(l,1,2,0)
array_resize(l,-1) ;; flatten(i)
array_remove(l,'x')
array_sort(l,'x') ;; array_max(i)
array_position(l,2,3) ;; array_position(l,2,0) ;; array_position(l,2,n)
sinh(s)
factorial(i) ;; factorial(21) ;; gcd(f,1) ;; to_hex(f) ;; factorial(2.5) ;; factorial(f)
digest(s,'SHA1') ;; digest(s,'x') ;; md5(i) ;; digest(s,NULL) ;; digest(s, 'SHA256') ;; digest(s,s)
decode(bin,'base64') ;; encode(s,'x') ;; decode(s,'hex') ;; encode(i,'hex') ;; encode(s,'HEX')
decode(bin, 'hex')
overlay(s,'x',i) ;; overlay(s,'x',0) ;; overlay(s,'x',-1)
chr(1114112) ;; chr(55296) ;; chr(-1) ;; length(bin) ;; ascii(i)
arrow_cast(i,'Struct("a": Int32)') ;; arrow_cast(m,'List(non-null Int64)')
arrow_cast(v,'FixedSizeList(3, Float64)') ;; arrow_cast(i,'int32')
arrow_cast(l,'List(field: ''element'', Int64)') ;; arrow_cast(NULL,'Union()') ;; arrow_cast(i,'Int32x')
arrow_cast(i,'List(Int32') ;; arrow_cast(i,'') ;; arrow_cast(i,s) ;; arrow_cast(i,NULL) ;; arrow_cast(i)
arrow_cast(l,'FixedSizeList(2, Int64)') ;; arrow_cast(i,'Decimal128(100, 2)')
arrow_cast(s,'Dictionary(Utf8, Utf8)') ;; arrow_cast(t, 'Timestamp(Microsecond, Some("Nowhere"))')
CAST(l AS INT ARRAY) ;; CAST(l AS INT[]) ;; CAST(l AS ARRAY<INT>) ;; CAST(i AS TINYINT UNSIGNED)
CAST(s AS STRUCT<a INT>) ;; CAST(i AS MAP<INT,INT>) ;; CAST(i AS DECIMAL(40,2)) ;; CAST(i AS DECIMAL(0,0))
named_struct('a') ;; named_struct(1,2) ;; [[1],[2]] ;; [1, 'a'] ;; get_field(st,'q')
array_to_string(i,',')
range(1,5,0) ;; range(f)
array_distance(l,m) ;; array_distance(lt,lt)
map(lt,lt) ;; make_map(s,1) ;; mp['a'] ;; map(['a','a'],[1,2]) ;; map([NULL],[1]) ;; map(['a'],[1,2])
map_keys(l) ;; array_length(ll,2) ;; empty(mp) ;; array_length(mp)
to_unixtime(b) ;; from_unixtime(f)
make_date(2020,13,1) ;; make_time(24,0,0) ;; to_local_time(d)
to_char(i,'%Y')
date_bin(interval '0 days', t) ;; date_bin(interval '1 day', i)
to_timestamp_seconds(f) ;; date_bin(INTERVAL '1 month 1 day', t) ;; to_char(time,'%Y')
to_date(moment,'%Y-%m-%d') ;; to_date(s,'%Y') ;; to_date('x','%Y') ;; to_date('2021-02-30','%Y-%m-%d') ;; to_timestamp('2300-01-01','%F')
to_timestamp('2020-01-02 12:30:61','%F %T') ;; to_timestamp('2020-01-02 12:30:10 extra','%F %T') ;; to_timestamp('2020-01-02 x','%F %Q')
range(DATE '2020-01-01',DATE '2020-01-03',INTERVAL '12 hour') ;; range(DATE '2020-01-01',DATE '2020-01-03',INTERVAL '0 day')
date_part('century', d)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    return lance.write_dataset(TABLE, tmp_path_factory.mktemp("functions") / "t.lance", data_storage_version="2.2")


def family(line: str) -> str:
    return line.split(" ;; ")[0]


def theirs(table: lance.LanceDataset, text: str) -> pa.ChunkedArray:
    """With a column beside it, without which pylance computes no constants."""
    return table.to_table(columns={"r": text, "id": "id"})["r"]


def ours(text: str) -> pa.ChunkedArray:
    values = evaluate(parse_expression(text, TABLE.schema), TABLE)
    values.validate(full=True)
    return values


def without_views(kind: pa.DataType) -> str:
    """pyarrow can neither take nor sort views of text, so that ours are plain where pylance gives views."""
    return str(kind).replace("string_view", "string").replace("large_string", "string")


def close(actual: list[object], expected: list[object], single: bool) -> bool:
    """numpy's functions and Rust's may differ in the last digit."""
    for mine, other in zip(actual, expected, strict=True):
        if isinstance(mine, float) and isinstance(other, float) and not (math.isnan(mine) and math.isnan(other)):
            if not math.isclose(mine, other, rel_tol=1e-6 if single else 1e-14):
                return False
        elif str(mine) != str(other):
            return False
    return True


@pytest.mark.parametrize("line", AGREED.strip().splitlines(), ids=family)
def test_functions_give_what_pylance_gives(table: lance.LanceDataset, line: str):
    for text in line.split(" ;; "):
        expected, actual = theirs(table, text), ours(text)
        assert without_views(actual.type) == without_views(expected.type), text
        assert close(actual.to_pylist(), expected.to_pylist(), pa.types.is_float32(actual.type)), text


@pytest.mark.parametrize("line", AGREED.strip().splitlines(), ids=family)
def test_functions_print_as_sql_that_parses_back(line: str):
    for text in line.split(" ;; "):
        if any(word in text for word in ("now", "current_", "uuid", "random")):
            continue
        expr = parse_expression(text, TABLE.schema)
        again = evaluate(parse_expression(to_sql(expr), TABLE.schema), TABLE)
        assert str(again.to_pylist()) == str(ours(text).to_pylist()), to_sql(expr)


@pytest.mark.parametrize("line", AGREED.strip().splitlines(), ids=family)
def test_functions_give_slices_what_they_give_the_whole(line: str):
    for text in line.split(" ;; "):
        if any(word in text for word in ("now", "current_", "uuid", "random")):
            continue
        expr = parse_expression(text, TABLE.schema)
        part = TABLE.slice(1, 4).combine_chunks().to_batches()[0]
        sliced = TABLE.to_batches()[0].slice(1, 4)
        assert str(evaluate(expr, sliced).to_pylist()) == str(evaluate(expr, part).to_pylist()), text
        assert len(evaluate(expr, sliced.slice(0, 0))) == 0


@pytest.mark.parametrize("line", REFUSED.strip().splitlines(), ids=family)
def test_both_refuse(table: lance.LanceDataset, line: str):
    for text in line.split(" ;; "):
        with pytest.raises((ValueError, OSError, NotImplementedError)):
            theirs(table, text)
        with pytest.raises(LanceletError):
            ours(text)


def test_a_range_of_dates_has_all_that_come_before_its_end():
    """pylance leaves out the last of them, 2019-12-31, since another step would pass the end."""
    values = ours("range(DATE '1999-12-31', DATE '2020-01-01', INTERVAL '10 years')")
    assert values.to_pylist()[0] == [dt.date(1999, 12, 31), dt.date(2009, 12, 31), dt.date(2019, 12, 31)]


def test_random_values_are_drawn_for_each_row():
    for text in ("uuid()", "random()"):
        values = evaluate(parse_expression(text, TABLE.schema), TABLE).to_pylist()
        assert len(set(values)) == len(values), text


def test_now_has_no_time_zone_as_in_pylance():
    assert ours("now()").type == pa.timestamp("ns")
    assert ours("current_time()").type == pa.time64("ns")


@pytest.mark.parametrize("moment", ["now()", "CURRENT_TIMESTAMP", "Now ( )"])
def test_a_filter_that_is_asked_again_is_about_the_time_at_which_it_is_asked(moment: str):
    rows = pa.table({"at": pa.array([dt.datetime.now(dt.timezone.utc).replace(tzinfo=None)], pa.timestamp("ns"))})
    dataset = lancelet.write_dataset(rows, "memory://functions/moments", mode="overwrite")
    plans = [dataset.scanner(filter=f"at < {moment}").plan.filter for _ in range(2)]
    assert plans[0] != plans[1]
    same = [dataset.scanner(filter="at is null").plan.filter for _ in range(2)]
    assert same[0] is same[1]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "NGRAM"])
def test_a_function_that_no_index_knows_keeps_its_rows(tmp_path: Path, kind: str):
    dataset = lancelet.write_dataset(TABLE.select(["id", "s", "i"]), tmp_path / "t.lance")
    conditions = ["left(s, 1) = 'a'", "s = 'abc' OR to_hex(i) = '7'", "s = 'abc' AND md5(s) = md5('abc')"]
    conditions += ["NOT (translate(s, 'a', 'b') = 'bbbb')", "s LIKE 'a%' AND regexp_like(s, 'c$')"]
    conditions += ["contains(s, 'a') OR levenshtein(s, 'abd') < 2", "find_in_set(s, 'abc,aaaa') > 0 AND s > 'a'"]
    without = [dataset.to_table(filter=condition) for condition in conditions]
    dataset.create_scalar_index("s", kind)
    for condition, expected in zip(conditions, without, strict=True):
        assert dataset.to_table(filter=condition).equals(expected), condition
