use std::convert::Infallible;

use super::*;
use crate::format::{Attribute, Dimension, Format};

fn attribute(name: &str, values: impl Into<Values>) -> Attribute {
    Attribute { name: name.into(), values: values.into() }
}

fn variable(name: &str, external: Type, dimensions: &[u32]) -> Variable {
    Variable::new(name, external, dimensions.to_vec())
}

fn with_dimensions(lens: &[(&str, u64)]) -> Header {
    let mut header = Header::new(Format::Cdf5);
    for (name, len) in lens {
        header.dimensions.push(Dimension::classic(*name, *len));
    }
    header
}

/// The text of a dataset, whose data is `data`; also checks that it is asked for in order.
fn text(header: &Header, options: &DumpOptions, data: &[Values]) -> String {
    let mut out = Vec::new();
    let mut done = vec![0; data.len()];
    let mut read = |index: usize, _: &[u64], count: &[u64]| -> Result<Values, Infallible> {
        let elements = count.iter().product::<u64>() as usize;
        assert!(elements as u64 <= BATCH);
        let bytes = data[index].to_bytes();
        let size = data[index].external().size() as usize;
        let from = done[index] * size;
        done[index] += elements;
        Ok(Values::from_bytes(data[index].external(), &bytes[from..from + elements * size]))
    };
    dump(header, "t", options, &mut read, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn data_of(header: &Header, data: &[Values]) -> String {
    let text = text(header, &DumpOptions::default(), data);
    text.split_once("data:\n").unwrap().1.to_owned()
}

#[test]
fn definitions_are_complete() {
    let mut all = with_dimensions(&[("time", 0), ("2 x", 3)]);
    all.records = 4;
    let mut data = variable("data", Type::Float, &[0, 1]);
    data.attributes = vec![
        attribute("_FillValue", -1.5f32),
        attribute("range", vec![0.0f32, 1e10, f32::NAN, f32::NEG_INFINITY]),
        attribute("none", Vec::<i16>::new()),
    ];
    all.variables = vec![data, variable("ü", Type::UInt64, &[])];
    all.attributes = vec![
        attribute("title", "a \"b\"\n'c'\t\u{1}\u{fc}\0x\0\0"),
        attribute("b", vec![-1i8, 2]),
        attribute("s", 3i16),
        attribute("i", 4i32),
        attribute("d", vec![1.0f64, 0.1, f64::INFINITY]),
        attribute("ub", 5u8),
        attribute("us", 6u16),
        attribute("ui", 7u32),
        attribute("l", -8i64),
        attribute("ul", 9u64),
        attribute("_NCProperties", "hidden"),
    ];
    let mut out = Vec::new();
    header(&all, "1 a", &mut out).unwrap();
    let expected = "netcdf \\1\\ a {
dimensions:
\ttime = UNLIMITED ; // (4 currently)
\t\\2\\ x = 3 ;
variables:
\tfloat data(time, \\2\\ x) ;
\t\tdata :_FillValue = -1.5f ;
\t\tdata :range = 0.f, 1.e+10f, NaNf, -Infinityf ;
\t\tdata :none = \"\" ;
\tuint64 ü ;

// global attributes:
\t\t:title = \"a \\\"b\\\"\\n\",
\t\t\t\"\\'c\\'\\t\\001ü\\000x\" ;
\t\t:b = -1b, 2b ;
\t\t:s = 3s ;
\t\t:i = 4 ;
\t\t:d = 1., 0.1, Infinity ;
\t\t:ub = 5UB ;
\t\t:us = 6US ;
\t\t:ui = 7U ;
\t\t:l = -8LL ;
\t\t:ul = 9ULL ;
}
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn an_empty_dataset() {
    let header = Header::new(Format::Cdf1);
    assert_eq!(text(&header, &DumpOptions::default(), &[]), "netcdf t {\n}\n");
}

#[test]
fn lines_are_filled_up() {
    let mut header = with_dimensions(&[("n", 30)]);
    header.variables = vec![variable("v", Type::Int, &[0])];
    let values: Vec<i32> = (0..30).map(|i| i * 1001).collect();
    let expected = "
 v = 0, 1001, 2002, 3003, 4004, 5005, 6006, 7007, 8008, 9009, 10010, 11011, 
    12012, 13013, 14014, 15015, 16016, 17017, 18018, 19019, 20020, 21021, 
    22022, 23023, 24024, 25025, 26026, 27027, 28028, 29029 ;
}
";
    assert_eq!(data_of(&header, &[values.into()]), expected);
}

#[test]
fn rows_text_and_fill_values() {
    let mut header = with_dimensions(&[("t", 0), ("y", 2), ("x", 3), ("x3", 5)]);
    header.records = 2;
    let mut filled = variable("f", Type::Byte, &[2]);
    filled.attributes.push(attribute("_FillValue", -1i8));
    let mut formatted = variable("c", Type::Double, &[2]);
    formatted.attributes.push(attribute("C_format", "%.2f"));
    header.variables = vec![
        variable("a", Type::Short, &[0, 1, 2]),
        variable("s", Type::Char, &[1, 3]),
        variable("one", Type::Char, &[]),
        filled,
        variable("d", Type::Double, &[2]),
        formatted,
    ];
    let data = [
        vec![1i16, 2, -32767, 4, 5, 6, 7, 8, 9, 10, 11, 12].into(),
        Values::Char(b"ab\0\0\0\xfc\0\n'\0".to_vec()),
        Values::Char(b"x".to_vec()),
        vec![1i8, -1, -127].into(),
        vec![1.0, 9.969_209_968_386_869e36, f64::NAN].into(),
        vec![1.0, 2.345, -1e3].into(),
    ];
    let expected = "
 a =
  1, 2, _,
  4, 5, 6,
  7, 8, 9,
  10, 11, 12 ;

 s =
  \"ab\",
  \"\\374\\000\\n\",
    \"\\'\" ;

 one = \"x\" ;

 f = 1, _, -127 ;

 d = 1, _, NaN ;

 c = 1.00, 2.35, -1000.00 ;
}
";
    assert_eq!(data_of(&header, &data), expected);
}

#[test]
fn only_what_is_asked_for() {
    let mut header = with_dimensions(&[("t", 0), ("x", 2)]);
    header.variables = vec![
        variable("t", Type::Int, &[0]),
        variable("x", Type::Int, &[1]),
        variable("y", Type::Int, &[1]),
    ];
    let data: Vec<Values> = [vec![], vec![1, 2], vec![3, 4]].map(Values::from).into();
    assert_eq!(data_of(&header, &data), "\n x = 1, 2 ;\n\n y = 3, 4 ;\n}\n");
    let coordinates = DumpOptions { data: Data::Coordinates, ..DumpOptions::default() };
    assert!(text(&header, &coordinates, &data).ends_with("data:\n\n x = 1, 2 ;\n}\n"));
    let one = DumpOptions { variables: vec!["y".into()], ..DumpOptions::default() };
    assert!(text(&header, &one, &data).ends_with("data:\n\n y = 3, 4 ;\n}\n"));
    let none = DumpOptions { data: Data::None, ..DumpOptions::default() };
    assert!(!text(&header, &none, &data).contains("data:"));
    let wrong = DumpOptions { variables: vec!["z".into()], ..DumpOptions::default() };
    let mut read = |_: usize, _: &[u64], _: &[u64]| Err::<Values, _>("unreadable");
    let mut out = Vec::new();
    let error = dump(&header, "t", &wrong, &mut read, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "there is no variable 'z'");
    assert!(out.is_empty());
    let error = dump(&header, "t", &one, &mut read, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "unreadable");
}

#[test]
fn large_variables_come_in_parts() {
    let mut header = with_dimensions(&[("n", BATCH + 5), ("k", 3)]);
    header.variables = vec![variable("s", Type::Char, &[0, 1]), variable("b", Type::Byte, &[0])];
    let rows = (BATCH + 5) as usize;
    let data = [Values::Char(vec![b'x'; rows * 3]), Values::Byte(vec![1; rows])];
    let text = data_of(&header, &data);
    assert_eq!(text.matches("\"xxx\"").count(), rows);
    assert_eq!(text.matches("1, ").count(), rows - 1);
}

#[test]
fn names_come_from_paths() {
    for (path, name) in
        [("a/b.c.nc", "b.c"), ("a.d/b", "b"), (".nc", ""), ("striate://h/x/y.nc", "y")]
    {
        assert_eq!(name_of(Path::new(path)), name);
    }
}
