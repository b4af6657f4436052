//! Headers for tests: a fixed one, and random ones.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use proptest::collection::vec;
use proptest::prelude::*;
use striate_array::format::{
    Alignment, Attribute, Dimension, Format, Header, Type, Values, Variable,
};

pub fn dimension(name: &str, len: u64) -> Dimension {
    Dimension::classic(name, len)
}

pub fn variable(name: &str, external: Type, dimensions: &[u32]) -> Variable {
    Variable::new(name, external, dimensions.to_vec())
}

pub fn attribute(name: &str, values: impl Into<Values>) -> Attribute {
    Attribute { name: name.into(), values: values.into() }
}

/// A header with every kind of item, and two records.
pub fn sample(format: Format) -> Header {
    let mut header = Header {
        records: 2,
        dimensions: vec![dimension("t", 0), dimension("x", 5)],
        attributes: vec![attribute("title", "a sample")],
        variables: vec![
            variable("a", Type::Byte, &[1]),
            variable("r", Type::Short, &[0, 1]),
            variable("q", Type::Double, &[0]),
        ],
        ..Header::new(format)
    };
    header.variables[0].attributes =
        vec![attribute("units", "m"), attribute("valid", vec![1.5, f64::NAN])];
    header.arrange(&Alignment::default(), None).unwrap();
    header
}

pub fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(vec![Format::Cdf1, Format::Cdf2, Format::Cdf5])
}

pub fn external(format: Format) -> impl Strategy<Value = Type> {
    let types: Vec<Type> =
        Type::ALL.into_iter().filter(|external| external.is_in(format)).collect();
    prop::sample::select(types)
}

fn name(index: usize, tail: &str) -> String {
    format!("{}{index}{tail}", ["n", "ü", "long_name_", "_"][index % 4])
}

fn values(format: Format) -> impl Strategy<Value = Values> {
    (external(format), vec(any::<u8>(), 0..40)).prop_map(|(external, mut bytes)| {
        // A NaN is not equal to itself: without exponents of all ones there is none.
        bytes.iter_mut().step_by(2).for_each(|byte| *byte &= 0x3F);
        Values::from_bytes(external, &bytes)
    })
}

fn attributes(format: Format) -> impl Strategy<Value = Vec<Attribute>> {
    vec((values(format), "[a-z]{0,3}"), 0..4).prop_map(|list| {
        let named = list.into_iter().enumerate();
        named.map(|(i, (values, tail))| attribute(&name(i, &tail), values)).collect()
    })
}

fn dimensions() -> impl Strategy<Value = Vec<Dimension>> {
    (vec((1_u64..6, "[a-z]{0,3}"), 0..5), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(list, unlimited, has)| {
            let named = list.into_iter().enumerate();
            let mut dimensions: Vec<Dimension> =
                named.map(|(i, (len, tail))| dimension(&name(i, &tail), len)).collect();
            if has && !dimensions.is_empty() {
                let unlimited = unlimited.get_mut(&mut dimensions);
                *unlimited = dimension(&unlimited.name, 0);
            }
            dimensions
        },
    )
}

fn shape(dimensions: &[Dimension]) -> impl Strategy<Value = Vec<u32>> + use<> {
    let fixed: Vec<u32> =
        (0..dimensions.len() as u32).filter(|&i| !dimensions[i as usize].is_unlimited()).collect();
    let unlimited = dimensions.iter().position(Dimension::is_unlimited);
    let inner = if fixed.is_empty() {
        Just(Vec::new()).boxed()
    } else {
        vec(prop::sample::select(fixed), 0..4).boxed()
    };
    (inner, any::<bool>()).prop_map(move |(mut shape, of_records)| {
        if let Some(unlimited) = unlimited.filter(|_| of_records) {
            shape.insert(0, unlimited as u32);
        }
        shape
    })
}

fn variables(
    format: Format,
    dimensions: &[Dimension],
    from: usize,
) -> impl Strategy<Value = Vec<Variable>> + use<> {
    let one = (shape(dimensions), external(format), attributes(format), "[a-z]{0,3}");
    vec(one, 0..7).prop_map(move |list| {
        let named = list.into_iter().enumerate();
        named
            .map(|(i, (shape, external, attributes, tail))| Variable {
                attributes,
                ..variable(&name(from + i, &tail), external, &shape)
            })
            .collect()
    })
}

pub fn alignment() -> impl Strategy<Value = Alignment> {
    let boundary = || prop::sample::select(vec![1_u64, 2, 4, 5, 8, 12, 64, 100]);
    (boundary(), boundary(), prop::sample::select(vec![0, 8, 100]), boundary()).prop_map(
        |(header, fixed, fixed_from, record)| Alignment { header, fixed, fixed_from, record },
    )
}

/// A random header with a layout.
pub fn header() -> impl Strategy<Value = Header> {
    let begun = format().prop_flat_map(|format| (Just(format), dimensions(), attributes(format)));
    let defined = begun.prop_flat_map(|(format, dimensions, attributes)| {
        let variables = variables(format, &dimensions, 0);
        (Just((format, dimensions, attributes)), variables, 0_u64..4, alignment())
    });
    defined.prop_map(|((format, dimensions, attributes), variables, records, alignment)| {
        let mut header =
            Header { records, dimensions, attributes, variables, ..Header::new(format) };
        if header.record_size() == Some(0) {
            header.records = 0;
        }
        header.arrange(&alignment, None).unwrap();
        header
    })
}

/// A random header with a layout, and one with more definitions.
pub fn grown() -> impl Strategy<Value = (Header, Header)> {
    header().prop_flat_map(|before| {
        let format = before.format;
        let more = variables(format, &before.dimensions, before.variables.len());
        let swap = any::<prop::sample::Index>();
        (Just(before), more, attributes(format), any::<bool>(), swap).prop_map(
            |(mut before, more, attributes, grows, swap)| {
                swap_places(&mut before, swap);
                let mut after = before.clone();
                if grows {
                    after.variables.extend(more);
                }
                after.attributes = attributes;
                (before, after)
            },
        )
    })
}

/// Exchanges the offsets of two fixed variables of the same size: a layout need not be in order.
fn swap_places(header: &mut Header, index: prop::sample::Index) {
    let fixed: Vec<usize> = (0..header.variables.len())
        .filter(|&index| !header.is_record(&header.variables[index]))
        .collect();
    if fixed.is_empty() {
        return;
    }
    let one = *index.get(&fixed);
    let size = |index: usize| header.slab_size(&header.variables[index]);
    let other = fixed.into_iter().rev().find(|&other| size(other) == size(one)).unwrap_or(one);
    let (a, b) = (header.variables[one].begin, header.variables[other].begin);
    (header.variables[one].begin, header.variables[other].begin) = (b, a);
}
