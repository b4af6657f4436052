//! Texts of which `ncgen` makes files.

pub(crate) const TEXTS: [&str; 6] = [
    "netcdf empty { }",
    r#"netcdf classic {
dimensions: t = UNLIMITED ; x = 5 ; y = 3 ;
variables: byte a(x) ; a:units = "m" ; a:valid = 1b, 100b ; char c(y, x) ; short s ; double d(y) ;
    d:_FillValue = NaN ; float f(x, y) ; short r(t, y) ; byte q(t) ; double p(t, x) ; double t(t) ;
:title = "with some of everything" ; :numbers = 1, 2, 3 ;
data: a = 1, 2, 3, 4, 5 ; c = "abcdefghijklmno" ; s = 7 ; d = 1, 2, 3 ; r = 1, 2, 3, 4, 5, 6 ;
    q = 1, 2 ; p = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ; t = 0.5, 1.5 ;
f = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 ; }"#,
    r#"netcdf groups {
dimensions: x = 4 ; t = UNLIMITED ; s = UNLIMITED ;
variables: int x(x) ; string names(x) ; int64 many(t, s) ; :note = "at the root" ;
data: x = 1, 2, 3, 4 ; names = "one", "two", "", "three" ; many = {1, 2, 3}, {4, 5} ;
group: inner { dimensions: x = 2 ; variables: ubyte v(x, t) ; :note = "inside" ;
    data: v = {1}, {2} ; group: deeper { variables: uint64 w ; w:string_att = "a" ; data: w = 7 ; } }
group: empty { } }"#,
    r"netcdf types {
types: byte enum cloud { CLEAR = 0, STRATUS = 2, MISSING = 127 } ; opaque(5) blob ;
    int(*) ragged ; compound point { float x ; float y ; int id(2) ; } ;
dimensions: n = 3 ;
variables: cloud sky(n) ; cloud sky:_FillValue = MISSING ; blob raw(n) ; ragged rows(n) ; point places(n) ;
    point :origin = {0, 0, {1, 2}} ;
data: sky = CLEAR, STRATUS, MISSING ; raw = 0x0102030405, 0xFFFEFDFCFB, 0x0 ;
    rows = {1, 2, 3}, {4}, {5, 6} ; places = {1, 2, {3, 4}}, {5, 6, {7, 8}}, {9, 10, {11, 12}} ; }",
    r#"netcdf storage {
dimensions: x = 40 ; y = 30 ; t = UNLIMITED ;
variables: float chunked(x, y) ; chunked:_ChunkSizes = 7, 11 ; chunked:_DeflateLevel = 3 ;
    chunked:_Shuffle = "true" ; int summed(x) ; summed:_Fletcher32 = "true" ; summed:_ChunkSizes = 9 ;
    short big(y) ; big:_Endianness = "big" ; double flat(x) ; flat:_Storage = "contiguous" ;
    int none(x) ; none:_NoFill = "true" ; int time(t, x) ;
data: summed = 1, 2, 3, 4, 5, 6, 7 ; big = 1, 2, 3 ; flat = 1.5, 2.5 ; chunked = 1, 2, 3 ;
    time = 1, 2, 3, 4 ; }"#,
    r#"netcdf text {
dimensions: n = 3 ; m = 6 ;
variables: char fixed(n, m) ; fixed:long_name = "of a fixed length" ;
    string free(n) ; string free:notes = "one", "two" ; string :empty = "" ;
data: fixed = "abc", "defghi", "" ; free = "x", "", "a longer one" ; }"#,
];
