//! Comparison of the definitions of two datasets.

use std::collections::{HashMap, HashSet};

use striate_array::format::{Attribute, Dimension, Group, Header, Variable};
use striate_array::{Type, Values, cdl};

use super::Difference;

/// Characters of a long value that are shown.
const SHOWN: usize = 60;

/// All differences; with `data_only`, only those because of which values cannot be compared.
pub(super) fn compare(first: &Header, second: &Header, data_only: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    if !data_only {
        by_name(
            (&first.dimensions, &second.dimensions),
            (
                |one: &Dimension| first.path(one.group, &one.name),
                |one: &Dimension| second.path(one.group, &one.name),
            ),
            &mut |name, one, other| {
                let what = format!("dimension '{name}'");
                let len = |header: &Header, dimension: &Dimension| {
                    if dimension.is_unlimited() {
                        format!("unlimited ({})", header.len(dimension))
                    } else {
                        dimension.len.to_string()
                    }
                };
                let lens = (one.map(|one| len(first, one)), other.map(|other| len(second, other)));
                found.extend(difference(what, lens));
            },
        );
        let texts = |header: &Header| -> Vec<(String, String)> {
            let types = user_types(header);
            types.map(|of| (header.type_name(of), header.type_text(of))).collect()
        };
        let name = |one: &(String, String)| one.0.clone();
        by_name((&texts(first), &texts(second)), (name, name), &mut |name, one, other| {
            let texts = (one.map(|(_, text)| text.clone()), other.map(|(_, text)| text.clone()));
            found.extend(difference(format!("type '{name}'"), texts));
        });
        let lists = (&first.attributes[..], &second.attributes[..]);
        attributes("attribute", (first, second), lists, &mut found);
        by_name(
            (&first.groups, &second.groups),
            (
                |one: &Group| first.path(one.parent, &one.name),
                |one: &Group| second.path(one.parent, &one.name),
            ),
            &mut |name, one, other| {
                let what = format!("group '{name}'");
                if let (Some(one), Some(other)) = (one, other) {
                    let what = format!("{what}, attribute");
                    let lists = (&one.attributes[..], &other.attributes[..]);
                    attributes(&what, (first, second), lists, &mut found);
                } else {
                    let there = |group: Option<&Group>| group.map(|_| "there".to_owned());
                    found.extend(difference(what, (there(one), there(other))));
                }
            },
        );
    }
    by_name(
        (&first.variables, &second.variables),
        (
            |one: &Variable| first.path(one.group, &one.name),
            |one: &Variable| second.path(one.group, &one.name),
        ),
        &mut |name, one, other| {
            let what = format!("variable '{name}'");
            let (Some(one), Some(other)) = (one, other) else {
                if !data_only {
                    let types =
                        (one.map(|one| kind(first, one)), other.map(|other| kind(second, other)));
                    found.extend(difference(what, types));
                }
                return;
            };
            let types = (Some(kind(first, one)), Some(kind(second, other)));
            found.extend(difference(format!("{what}, type"), types));
            let shapes = if data_only {
                (Some(lens(first, one)), Some(lens(second, other)))
            } else {
                (Some(shape(first, one)), Some(shape(second, other)))
            };
            found.extend(difference(format!("{what}, shape"), shapes));
            if !data_only {
                let what = format!("{what}, attribute");
                let lists = (&one.attributes[..], &other.attributes[..]);
                attributes(&what, (first, second), lists, &mut found);
            }
        },
    );
    found
}

fn attributes(
    what: &str,
    (first, second): (&Header, &Header),
    lists: (&[Attribute], &[Attribute]),
    found: &mut Vec<Difference>,
) {
    let name = |attribute: &Attribute| attribute.name.clone();
    by_name(lists, (name, name), &mut |name, one, other| {
        if one.map(|one| whole(first, one)) == other.map(|other| whole(second, other)) {
            return;
        }
        let text = |attribute: &Attribute| {
            let values = &attribute.values;
            if values.is_empty() {
                format!("no {}", values.external())
            } else {
                cut(&cdl::values(values))
            }
        };
        let (one, other) = (one.map(text), other.map(text));
        let what = format!("{what} '{name}'");
        found.push(Difference::Definition { what, first: one, second: other });
    });
}

/// All there is to an attribute but which NaN a NaN is.
fn whole(header: &Header, attribute: &Attribute) -> (String, Vec<u8>) {
    if let Values::Stored(stored) = &attribute.values {
        let shown: Vec<String> = (0..stored.len()).map(|number| stored.shown(number)).collect();
        return (header.type_text(stored.of), shown.join(", ").into_bytes());
    }
    let values = match &attribute.values {
        Values::Float(list) => {
            let one = |value: &f32| if value.is_nan() { f32::NAN } else { *value };
            Values::Float(list.iter().map(one).collect())
        }
        Values::Double(list) => {
            let one = |value: &f64| if value.is_nan() { f64::NAN } else { *value };
            Values::Double(list.iter().map(one).collect())
        }
        other => other.clone(),
    };
    (values.external().to_string(), values.to_bytes())
}

/// What is done with a name, and what has it in the first and in the second.
type NameVisitor<'s, 'a, T> = dyn FnMut(&str, Option<&'a T>, Option<&'a T>) + 's;

/// Calls `see` with everything that has the same name in both, or is in one of them.
fn by_name<'a, T>(
    (first, second): (&'a [T], &'a [T]),
    (of_first, of_second): (impl Fn(&'a T) -> String, impl Fn(&'a T) -> String),
    see: &mut NameVisitor<'_, 'a, T>,
) {
    let known: HashMap<String, &T> = second.iter().map(|item| (of_second(item), item)).collect();
    let mut seen = HashSet::new();
    for item in first {
        let name = of_first(item);
        see(&name, Some(item), known.get(&name).copied());
        seen.insert(name);
    }
    for item in second {
        let name = of_second(item);
        if !seen.contains(&name) {
            see(&name, None, Some(item));
        }
    }
}

fn difference(
    what: String,
    (first, second): (Option<String>, Option<String>),
) -> Option<Difference> {
    (first != second).then_some(Difference::Definition { what, first, second })
}

fn kind(header: &Header, variable: &Variable) -> String {
    header.type_name(variable.external)
}

/// The types that users defined.
fn user_types(header: &Header) -> impl Iterator<Item = Type> + use<'_> {
    header.user_type_ids().map(Type::from)
}

/// The dimensions with their names; for the lengths, they speak themselves.
fn shape(header: &Header, variable: &Variable) -> String {
    let name = |&index: &u32| {
        let dimension = header.dimensions.get(index as usize);
        dimension.map_or_else(String::new, |one| header.path(one.group, &one.name))
    };
    let names: Vec<String> = variable.dimensions.iter().map(name).collect();
    format!("({})", names.join(", "))
}

fn lens(header: &Header, variable: &Variable) -> String {
    let lens: Vec<String> = header.shape(variable).iter().map(ToString::to_string).collect();
    format!("({})", lens.join(", "))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use striate_array::Format;

    use super::*;

    fn header() -> Header {
        let mut header = Header::new(Format::Cdf1);
        header.records = 3;
        for (name, len) in [("t", 0), ("x", 5)] {
            header.dimensions.push(Dimension::classic(name, len));
        }
        let units = Attribute { name: "units".into(), values: "m".into() };
        header.attributes.push(Attribute { name: "v".into(), values: vec![f64::NAN].into() });
        header.variables.push(Variable {
            attributes: vec![units],
            ..Variable::new("a", Type::Int, vec![0, 1])
        });
        header
    }

    fn texts(first: &Header, second: &Header, data_only: bool) -> Vec<String> {
        compare(first, second, data_only).iter().map(|d| d.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn order_layout_format_and_bits_of_nan_are_no_difference() {
        let mut other = header();
        other.format = Format::Cdf5;
        other.variables[0].begin = 100;
        other.variables[0].dimensions = vec![1, 0];
        other.dimensions.reverse();
        other.attributes[0].values = Values::Double(vec![-f64::NAN]);
        assert_eq!(texts(&header(), &other, false), [""; 0]);
    }

    #[test]
    fn what_is_in_groups_is_compared_by_its_path() {
        let mut one = header();
        one.format = Format::Netcdf4;
        for name in ["g", "h"] {
            one.groups.push(Group { name: name.into(), parent: 0, attributes: Vec::new() });
        }
        let variable = Variable { group: 1, ..one.variables[0].clone() };
        one.variables.push(Variable { external: Type::Float, ..variable });
        assert_eq!(texts(&one, &one.clone(), false), [""; 0]);
        let mut other = one.clone();
        other.variables[1].group = 2;
        other.groups[1].attributes.push(other.attributes[0].clone());
        assert_eq!(
            texts(&one, &other, false),
            [
                "group 'h', attribute 'v': in the second only",
                "variable 'g/a': in the first only",
                "variable 'h/a': in the second only"
            ]
        );
        other.groups.truncate(1);
        other.variables.truncate(1);
        assert_eq!(
            texts(&one, &other, false),
            ["group 'h': in the first only", "variable 'g/a': in the first only"]
        );
    }

    #[test]
    fn all_differences_are_told() {
        let mut other = header();
        other.dimensions[1] = Dimension::classic("x", 6);
        other.records = 4;
        other.attributes[0].values = vec![1.0f64].into();
        other.variables[0].external = Type::Float;
        other.variables[0].attributes[0].values = vec![1i16].into();
        other.variables.push(Variable { name: "b".into(), ..other.variables[0].clone() });
        assert_eq!(
            texts(&header(), &other, false),
            [
                "dimension 't': unlimited (3) <> unlimited (4)",
                "dimension 'x': 5 <> 6",
                "attribute 'v': NaN <> 1.",
                "variable 'a', type: int <> float",
                "variable 'a', attribute 'units': \"m\" <> 1s",
                "variable 'b': in the second only",
            ]
        );
        assert_eq!(
            texts(&header(), &other, true),
            ["variable 'a', type: int <> float", "variable 'a', shape: (3, 5) <> (4, 6)"]
        );
    }
}
