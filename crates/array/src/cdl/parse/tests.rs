//! Texts and what they mean; `doors/cli/tests/nc/generate.rs` compares with `ncgen`.

use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::Elements;
use striate_hdf5::write::netcdf::AtomicType;

use super::*;
use crate::Format;

/// What is wrong with a text, values included.
fn fault(text: &str) -> String {
    match parse(text.as_bytes()).and_then(|document| read_all(&document)) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text} is not wrong"),
    }
}

/// The elements of all variables. Those of attributes are read as well.
fn read_all(document: &CdlDocument<'_>) -> Result<Vec<Vec<u8>>, CdlSyntaxError> {
    let mut all = Vec::new();
    for attribute in document.groups.iter().flat_map(|group| &group.attributes) {
        document.values(attribute, ByteOrder::Big)?;
    }
    for variable in &document.variables {
        let mut elements = Elements::new();
        let mut reader = document.elements(variable, ByteOrder::Big)?;
        reader.read(reader.total(), &mut elements)?;
        all.push(elements.as_bytes().to_vec());
    }
    Ok(all)
}

/// The elements of the only variable, which has a type of one byte.
fn bytes(text: &str) -> Vec<u8> {
    let document = parse(text.as_bytes()).unwrap();
    read_all(&document).unwrap().remove(0)
}

fn attribute_kind(values: &str) -> AtomicType {
    let text = format!("netcdf a {{ :a = {values} ; }}");
    let document = parse(text.as_bytes()).unwrap();
    match document.groups[0].attributes[0].of {
        CdlType::Atomic(atomic) => atomic,
        CdlType::User(_) => panic!("{values}"),
    }
}

#[test]
fn attributes_have_the_type_of_their_values() {
    let expected = [
        ("1, 2", AtomicType::Int),
        ("1b, 2s", AtomicType::Short),
        ("1, 2L", AtomicType::Int),
        ("3u", AtomicType::UInt),
        ("3ub, 255UB", AtomicType::UByte),
        ("4us", AtomicType::UShort),
        ("5LL", AtomicType::Int64),
        ("5ull, 1", AtomicType::UInt64),
        ("4000000000", AtomicType::UInt),
        ("-4000000000", AtomicType::Int64),
        ("300000000000", AtomicType::UInt64),
        ("1.5f, 1", AtomicType::Float),
        ("1.5f, 2.", AtomicType::Double),
        ("NaNf, -Infinityf", AtomicType::Float),
        ("NaN, -Infinity, 1", AtomicType::Double),
        ("\"a\", \"b\"", AtomicType::Char),
        ("", AtomicType::Char),
        ("1e3f", AtomicType::Float),
        (".5", AtomicType::Double),
    ];
    for (values, kind) in expected {
        assert_eq!(attribute_kind(values), kind, "{values}");
    }
}

#[test]
fn characters_fill_rows() {
    let of = |dimensions: &str, values: &str| {
        bytes(&format!(
            "netcdf a {{ dimensions: t = UNLIMITED; n = 3; x = 2;\n variables: char c{dimensions};\n\
             data: c = {values} ; }}"
        ))
    };
    assert_eq!(of("(n)", "\"a\""), b"a\0\0");
    assert_eq!(of("(x, n)", "\"a\", \"bcd\""), b"a\0\0bcd");
    assert_eq!(of("(x, n)", "'a', 'b', \"cd\""), b"ab\0cd\0");
    assert_eq!(of("(t, n)", "\"a\", \"bcde\""), b"a\0\0bcde\0\0");
    assert_eq!(of("(t)", "\"ab\", \"\", \"c\""), b"ab\0c");
    assert_eq!(of("(x, t)", "{\"ab\"}, {\"c\"}"), b"abc\0");
    assert_eq!(of("", "'\\n'"), b"\n");
}

#[test]
fn missing_values_are_filled() {
    let of = |dimensions: &str, values: &str| {
        bytes(&format!(
            "netcdf a {{ dimensions: t = UNLIMITED, u = UNLIMITED; n = 2;\n variables: ubyte v{dimensions};\n\
             v:_FillValue = 7; data: v = {values} ; }}"
        ))
    };
    assert_eq!(of("(n)", "1"), [1, 7]);
    assert_eq!(of("(t, n)", "1, 2, 3"), [1, 2, 3, 7]);
    assert_eq!(of("(t, u)", "{1, 2, 3}, {}, {4}"), [1, 2, 3, 7, 7, 7, 4, 7, 7]);
    assert_eq!(of("(n, u)", "{1, _, 3}"), [1, 7, 3, 7, 7, 7]);
    assert_eq!(of("(t, n, u)", "{1}, {2}, {3, 4}"), [1, 7, 2, 7, 3, 4, 7, 7]);
    assert_eq!(of("(u, t, n)", "{1, 2, 3}, {4}"), [1, 2, 3, 7, 4, 7, 7, 7]);
}

#[test]
fn a_text_without_wishes_gets_the_simplest_format() {
    let of =
        |body: &str| parse(format!("netcdf a {{ {body} }}").as_bytes()).unwrap().needed_format();
    assert_eq!(of(""), CdlFormat::Classic(Format::Cdf1));
    assert_eq!(of("variables: uint v;"), CdlFormat::Classic(Format::Cdf5));
    assert_eq!(of(":a = 1ull;"), CdlFormat::Classic(Format::Cdf5));
    assert_eq!(of(":_Format = \"64-bit offset\";"), CdlFormat::Classic(Format::Cdf2));
    assert_eq!(of("variables: string v;"), CdlFormat::Netcdf4);
    assert_eq!(of("group: g { }"), CdlFormat::Netcdf4);
    assert_eq!(of("dimensions: t = UNLIMITED, u = UNLIMITED;"), CdlFormat::Netcdf4);
    let inner = "dimensions: x = 2, t = UNLIMITED; variables: int v(x, t);";
    assert_eq!(of(inner), CdlFormat::Netcdf4);
    assert_eq!(of("variables: int v; v:_NoFill = \"true\";"), CdlFormat::Netcdf4);
}

#[test]
fn names_and_words() {
    let text = "netcdf some\\ name {\ndimensions: \\3d\\ x = 2 ; data = 3; // a comment\n\
                variables: int string(data); int data; /* another\n one */ data:units = \"m\" ;\n\
                string:a = 1; float a\\:b.c+d@e(\\3d\\ x); gr\u{f6}\u{df}e:a = 5; int gr\u{f6}\u{df}e;\n}";
    // An attribute of a variable that comes later.
    let error = parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "line 5, column 41: there is no variable 'gr\u{f6}\u{df}e'");
    let text = text.replace("gr\u{f6}\u{df}e:a = 5; ", "");
    let document = parse(text.as_bytes()).unwrap();
    let names: Vec<&str> = document.variables.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["string", "data", "a:b.c+d@e", "gr\u{f6}\u{df}e"]);
    assert_eq!(document.dimensions[0].name, "3d x");
    assert_eq!(document.variables[1].attributes[0].name, "units");
}

#[test]
fn types_of_other_groups_are_found() {
    let text = "netcdf a { group: g { types: opaque(3) t; } group: h { variables: t v; } }";
    assert_eq!(parse(text.as_bytes()).unwrap().variables[0].of, CdlType::User(0));
}

#[test]
fn an_empty_fill_value_is_a_zero() {
    let text = "netcdf a { dimensions: n = 3; variables: char v(n); v:_FillValue = \"\"; }";
    assert_eq!(bytes(text), [0, 0, 0]);
    let document = parse(text.as_bytes()).unwrap();
    let values = document.values(&document.variables[0].attributes[0], ByteOrder::Big).unwrap();
    assert_eq!(values.as_bytes(), [0]);
}

#[test]
fn mistakes_have_a_place() {
    let expected = [
        ("", "line 1, column 1: expected 'netcdf', found the end of the text"),
        ("netcdf a {", "line 1, column 11: expected '}', found the end of the text"),
        ("netcdf a { } x", "line 1, column 14: expected the end of the text, found 'x'"),
        ("netcdf a {\n dimensions:\n x = 0; }", "line 3, column 6: the length of a dimension is"),
        ("netcdf a { dimensions: x = 1; x = 2; }", "column 31: there is a dimension 'x' already"),
        ("netcdf a { variables: int v(x); }", "column 29: there is no dimension 'x'"),
        ("netcdf a { variables: thing v; }", "column 23: there is no type 'thing'"),
        ("netcdf a { variables: int v; int v; }", "there is a variable 'v' already"),
        ("netcdf a { :a = 1; :a = 2; }", "column 21: there is an attribute 'a' already"),
        ("netcdf a { :a = 1, \"x\"; }", "have no type in common"),
        ("netcdf a { :a = 1 2; }", "column 19: expected ',' or ';', found 2"),
        ("netcdf a { :a = 1, ; }", "expected a value, found ';'"),
        ("netcdf a { :a = \"x; }", "a text in quotes does not end"),
        ("netcdf a { :a = 300b; }", "300 is out of the range that its suffix stands for"),
        ("netcdf a { :a = 1x; }", "'x' is not a suffix"),
        ("netcdf a { :a = 09; }", "is not an octal number"),
        ("netcdf a { byte :a = 200; }", "column 22: 200 is out of the range of its type"),
        ("netcdf a { variables: int v; data: v = 1, 2; }", "has 1 elements, and more values"),
        ("netcdf a { variables: int v; data: v = 1.5; }", "1.5 is not an integer"),
        ("netcdf a { variables: float v; data: v = 1e99; }", "is out of the range of its type"),
        ("netcdf a { variables: int v; data: v = \"x\"; }", "expected a number, found text"),
        ("netcdf a { variables: int v; data: w = 1; }", "there is no variable 'w'"),
        ("netcdf a { variables: int v; data: v = 1; v = 2; }", "has values already"),
        ("netcdf a { variables: char v; data: v = \"ab\"; }", "has 1 elements, and more values"),
        ("netcdf a { types: int enum e {A = 1, A = 2}; }", "there is a value 'A' already"),
        ("netcdf a { types: byte enum e {A = 200}; }", "200 is out of the range"),
        ("netcdf a { types: compound c { c x; }; }", "the type 'c' contains itself"),
        ("netcdf a { types: float enum e {A = 1}; }", "expected an integer type"),
        ("netcdf a { types: opaque(0) o; }", "an opaque type has from 1 to"),
        ("netcdf a { group: g { } group: g { } }", "there is a group 'g' already"),
        ("netcdf a { variables: int v; v:_ChunkSizes = 1; }", "expected 0 positive integers"),
        ("netcdf a { variables: int v; v:_DeflateLevel = 12; }", "a level from 0 to 9"),
        ("netcdf a { variables: int v; v:_FillValue = 1, 2; }", "_FillValue is one value"),
        ("netcdf a { :_Format = \"other\"; }", "_Format: 'other' is no format"),
    ];
    for (text, problem) in expected {
        let found = fault(text);
        assert!(found.contains(problem), "{text}:\n{found}\nnot\n{problem}");
    }
}

#[test]
fn depth_and_size_are_limited() {
    let groups = "group: g {".repeat(100_000);
    assert!(fault(&format!("netcdf a {{ {groups}")).contains("more than 64 deep"));
    let braces = "{".repeat(100_000);
    let text = format!("netcdf a {{ variables: int v; data: v = {braces}");
    assert!(fault(&text).contains("more than 64 deep"));
    let nested: String =
        (0..100).map(|n| format!("t{n} (*) t{};", n + 1)).collect::<Vec<_>>().concat();
    let text = format!("netcdf a {{ types: int(*) t0; {nested} }}");
    assert!(fault(&text).contains("types are in each other"));
    let wide: String = (0..9)
        .map(|n| format!("compound t{} {{ t{n} x(100); }};", n + 1))
        .collect::<Vec<_>>()
        .concat();
    let text = format!("netcdf a {{ types: compound t0 {{ int x(100); }}; {wide} }}");
    assert!(fault(&text).contains("more than 16777216 bytes"));
    let text = "netcdf a { dimensions: x = 9223372036854775807; variables: byte v(x, x); }";
    assert!(fault(text).contains("larger than any file"));
}
