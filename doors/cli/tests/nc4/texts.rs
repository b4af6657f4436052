//! Texts of which `ncgen` makes files: what users define, and how it is printed.

/// In the netCDF-4 model.
pub(crate) const TEXTS: [&str; 17] = [
    // Attributes of all types, also as lists, and names that need escapes.
    r#"netcdf attributes {
dimensions: \2x = 2 ; a\ b = 3 ; ünï = 1 ;
variables: int \2x(\2x) ; byte odd-name+(a\ b) ; odd-name+:x = 1b ;
    double v ; v:b = 1b, -2b ; v:ub = 1UB, 255UB ; v:s = 1s ; v:us = 2US ; v:i = 3, 4 ; v:u = 5U ;
    v:ll = -6LL ; v:ull = 18446744073709551615ULL ; v:f = 1.f, 0.1f, 1.e20f, NaNf, -Infinityf ;
    v:d = 1., 0.1, 1.e200, NaN, Infinity ; v:c = "text" ; v:multi = "line\nbreak\ttab\"quote\\" ;
    string v:one = "one" ; string v:many = "a", "b\nc", "", "d'e" ; v:with\ blank = 1 ;
    v:empty = "" ; string v:nothing = "" ;
:title = "global" ; :_private = 1, 2, 3 ; string :s = "ä", "€" ;
}"#,
    // Data of all types, fill values, numbers that are none.
    r#"netcdf data {
dimensions: n = 6 ; t = UNLIMITED ;
variables: byte b(n) ; ubyte ub(n) ; short s(n) ; ushort us(n) ; int i(n) ; uint u(n) ; int64 ll(n) ;
    uint64 ull(n) ; float f(n) ; double d(n) ; char c(n) ; string st(n) ; int scalar ; string sc ;
    float filled(n) ; filled:_FillValue = -1.f ; string fs(n) ; string fs:_FillValue = "none" ;
    int never(n) ; int records(t, n) ; string grown(t) ;
data: b = 1, -127, _, 3, 127, 0 ; ub = 1, 255, 2, 3, 4, 5 ; s = 1, _, 3, 4, 5, -32768 ;
    us = 1, 65535, 3, 4, 5, 6 ; i = 1, _, -3, 4, 5, 6 ; u = 1, 2, 4294967295, 4, 5, 6 ;
    ll = 1, -9223372036854775806, 3, 4, 5, 9223372036854775807 ;
    ull = 1, 18446744073709551614, 18446744073709551615, 4, 5, 6 ;
    f = 1, 0.1, 1e20, NaNf, -Infinityf, _ ; d = 1, 0.1, 1e200, NaN, Infinity, _ ; c = "ab\"d\n" ;
    st = "plain", "", "two words", "tab\tnewline\nquote\"", "ä€", "x" ; scalar = 7 ; sc = "alone" ;
    filled = 1, _, 3, -1, 5, 6 ; fs = "a", "none", "", "b", "c", "d" ; records = 1, 2, 3, 4, 5, 6, 7 ;
    grown = "one", "two", "three" ; }"#,
    // Records of several unlimited dimensions.
    r#"netcdf unlimited {
dimensions: t = UNLIMITED ; u = UNLIMITED ; w = UNLIMITED ; x = 2 ;
variables: int a(t, u) ; int b(t, x, u) ; int c(t, u, x) ; char d(t, u) ; int e(u) ; float f(t, u, w) ;
    string g(t, u) ; int h(x, u) ; int empty(w, t) ;
data: a = {1, 2, 3}, {4, 5} ; b = {1, 2, 3}, {4, 5, 6}, {7, 8}, {9, 10} ;
    c = {1, 2, 3, 4, 5, 6}, {7, 8} ; d = {"abc"}, {"de"} ; e = 1, 2, 3 ;
    g = {"a", "b", "c"}, {"d"} ; h = {1, 2}, {3, 4, 5} ; }"#,
    // Dimensions of the same name in several groups.
    r#"netcdf scopes {
dimensions: x = 2 ; y = 3 ;
variables: int x(x) ; int v(x, y) ;
data: x = 1, 2 ; v = 1, 2, 3, 4, 5, 6 ;
group: a { dimensions: x = 4 ; variables: int v(x, y) ; int w(/x) ; int x(x) ; int z(/x, x) ;
  data: v = 1, 2, 3 ; w = 7, 8 ; x = 9, 9, 9, 9 ;
  group: b { dimensions: y = 1 ; variables: int v(x, y) ; int w(/x, /y) ; string s(x) ; :note = "in b" ;
    data: s = "a long string to fill the line", "another long string", "and one more of them", "end" ; } }
group: c { dimensions: x = 1 ; group: d { group: e { dimensions: x = 2 ; variables: int far(/x) ; int mid(/c/x) ;
    data: far = 1, 2 ; } } } }"#,
    // Types in groups, and their use elsewhere.
    r"netcdf types_in_groups {
types: int enum colour { RED = 0, GREEN = 1 } ;
variables: colour c ; data: c = GREEN ;
group: g { types: short(*) row ; variables: row r ; colour c ; data: r = {1, 2} ; c = RED ;
  group: h { types: opaque(3) blob ; variables: row q ; blob o ; data: q = {} ; o = 0X010203 ; } }
group: k { variables: /g/row other ; /g/row other:att = {1, 2}, {3} ; data: other = {5} ; } }",
    // All types of users, and attributes of them.
    r#"netcdf user_types {
types: byte enum b { N = -1, Z = 0 } ; ubyte enum ub { BIG = 255 } ; short enum s { S = -300 } ;
    ushort enum us { US = 60000 } ; int enum i { I = -70000 } ; uint enum u { U = 4000000000 } ;
    int64 enum ll { L = -5000000000 } ; uint64 enum ull { UL = 5000000000 } ;
    opaque(1) one ; opaque(16) many ; double(*) doubles ; string(*) strings ;
    compound inner { int a ; double b ; } ;
    compound outer { byte x ; char c ; char name(8) ; char rows(2, 3) ; inner in ; inner arr(2) ; float m(2, 2) ; } ;
    compound mixed { int a ; string s ; doubles d ; i e ; } ;
    inner(*) nest ;
dimensions: n = 2 ;
variables: b vb(n) ; ub vub ; s vs ; us vus ; i vi ; u vu ; ll vll ; ull vull ; one v1(n) ; many v16(n) ;
    doubles vd(n) ; strings vst(n) ; inner vin(n) ; outer vo(n) ; mixed vm(n) ;
    nest vn(n) ;
    inner :origin = {1, 2.5} ; inner :several = {1, 2}, {3, 4}, {5, 6.123456789}, {7, 8}, {9, 10}, {11, 12} ;
    doubles :list = {1, 2, 3}, {}, {4.5} ; b :flag = N, Z ; many :key = 0X000102030405060708090A0B0C0D0E0F ;
    inner vin:_FillValue = {-1, -1} ; b vb:_FillValue = Z ;
data: vb = N, Z ; vub = BIG ; vs = S ; vus = US ; vi = I ; vu = U ; vll = L ; vull = UL ; v1 = 0XFF, 0X00 ;
    v16 = 0X000102030405060708090A0B0C0D0E0F, 0XFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF ;
    vd = {1, 2.5, NaN, 1e100}, {} ; vst = {"a", "b c"}, {"c"} ; vin = {1, 2}, {-1, -1} ;
    vo = {1, "c", {"name"}, {"abc", "de"}, {1, 2}, {{3, 4}, {5, 6}}, {1, 2, 3, 4}},
         {2, "d", {"q\"t"}, {"x", "y"}, {7, 8}, {{9, 10}, {11, 12}}, {5, 6, 7, 8}} ;
    vm = {1, "one", {1, 2}, I}, {2, "two\nlines", {3}, I} ;
    vn = {{1, 2}, {3, 4.5}}, {} ; }"#,
    // Long lists of members and values: lines are broken.
    r"netcdf lines {
types: int enum months { January = 1, February = 2, March = 3, April = 4, May = 5, June = 6, July = 7,
    August = 8, September = 9, October = 10, November = 11, December = 12 } ;
    compound pair { int first ; int second ; } ; int(*) row ;
dimensions: n = 30 ; m = 3 ;
variables: months month(n) ; pair pairs(m, n) ; row rows(m) ; double far(m, n) ; float wide(n) ;
    pair wide:att = {1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, 14}, {15, 16}, {17, 18}, {19, 20} ;
data: month = May, June, July, May, June, July, May, June, July, May, June, July, May, June, July, May, June, July,
    May, June, July, May, June, July, May, June, July, May, June, July ;
    pairs = {1, 2}, {3, 4}, {5, 6} ; rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 27, 28, 29, 30}, {1}, {2, 3} ; far = 1.23456789012345, 2.5, 3.75 ; wide = 1, 2, 3 ;
group: deep { types: int enum more { AnotherLongName = 1, YetAnotherLongName = 2, TheLastOfTheLongNames = 3 } ;
  variables: double far(n) ; more one ; data: far = 1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, 8.8 ; one = AnotherLongName ;
  group: deeper { variables: int v(m, n) ; data: v = 1, 2, 3 ; } } }",
    // How variables are stored.
    r#"netcdf special {
dimensions: x = 20 ; y = 30 ; t = UNLIMITED ;
variables: int a(x, y) ; a:_Storage = "chunked" ; a:_ChunkSizes = 5, 30 ; a:_DeflateLevel = 5 ; a:_Shuffle = "true" ;
    a:_Fletcher32 = "true" ; double b(x) ; b:_Endianness = "big" ; b:_Storage = "contiguous" ;
    short c(y) ; c:_Endianness = "little" ; c:_NoFill = "true" ; byte d(x) ; d:_Storage = "compact" ;
    float e(t, x) ; e:_DeflateLevel = 1 ; string f(x) ; f:_ChunkSizes = 7 ;
    int only ;
data: a = 1, 2, 3 ; b = 1.5 ; c = 7 ; d = 1, 2 ; e = 1, 2, 3, 4 ; f = "one", "two" ; }"#,
    // Times, their bounds and C formats.
    r#"netcdf times {
dimensions: time = UNLIMITED ; nv = 2 ;
variables: double time(time) ; time:units = "days since 2000-01-01" ; time:bounds = "tb" ; time:range = 1., 2., 3., 4., 5. ;
    double tb(time, nv) ; int hours(time) ; hours:units = "hours since 1990-01-01 12:00" ; hours:calendar = "noleap" ;
    hours:pair = 1, 2 ; float formatted(time) ; formatted:C_format = "%8.3f" ; int hex(time) ; hex:C_format = "0x%04x" ;
    string units(time) ; string units:units = "days since 2000-01-01" ;
data: time = 0, 0.5, 31, 1e6, _ ; tb = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ; hours = 1, 2, 3, 4, 5 ;
    formatted = 1, 2.5, NaNf, 1e10, -1 ; hex = 1, 255, 4096, -1, 0 ; units = "a" ;
group: g { variables: int t(time) ; t:units = "seconds since 1970-01-01" ; t:list = 1, 2, 3 ; data: t = 1, 2, 3, 4, 5 ; } }"#,
    "netcdf nothing { }",
    "netcdf one_group { group: g { } }",
    "netcdf deep { group: a { group: b { group: c { group: d { dimensions: x = 1 ; variables: int v(x) ; data: v = 1 ; } } } } }",
    "netcdf only_attributes { :a = 1 ; :b = \"text\" ; group: g { :c = 2LL ; } }",
    "netcdf only_dimensions { dimensions: x = 4 ; t = UNLIMITED ; z = UNLIMITED ; }",
    "netcdf empty_records { dimensions: t = UNLIMITED ; x = 3 ; variables: int v(t, x) ; string s(t) ; int w(x) ; data: w = 1, 2, 3 ; }",
    // A variable with the name of a dimension that is not its first.
    "netcdf odd { dimensions: x = 2 ; y = 3 ; variables: int x(y, x) ; float y(x) ; int z(x, x) ; data: x = 1, 2, 3, 4, 5, 6 ; y = 1, 2 ; z = 1, 2, 3, 4 ; }",
    r#"netcdf text { dimensions: n = 3 ; m = 5 ; k = 2 ; variables: char c(n, m) ; char d(k, n, m) ; char e ; char f(m) ;
f:C_format = "%d" ; char g(n) ; g:_FillValue = "x" ;
data: c = "abc", "defgh", "ijklm" ; d = "a", "b", "c", "d", "e", "f" ; e = "q" ; f = "12" ; g = "axb" ; }"#,
];

/// In the classic model.
pub(crate) const CLASSIC: [&str; 2] = [
    r#"netcdf lines {
dimensions: t = UNLIMITED ; x = 4 ;
variables: int v(t, x) ; v:note = "two\nlines" ; double time(t) ; time:units = "days since 2000-01-01" ; char c(x) ;
:title = "first\nsecond\nthird" ; :n = 1s, 2s ;
data: v = 1, 2, 3, 4, 5, 6, 7, 8 ; time = 1, 2 ; c = "ab" ; }"#,
    "netcdf none { dimensions: t = UNLIMITED ; variables: int v(t) ; }",
];
