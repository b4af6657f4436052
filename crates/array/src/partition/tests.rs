//! Tests of what is pure: schemes and headers.

use proptest::prelude::*;

use super::headers::{self, PartitionSize, PartitionTable};
use super::scheme::{PartitionScheme, balanced};
use super::*;
use crate::format::{Alignment, Attribute, Dimension, Format, Type, Values, Variable};

fn variable(name: &str, dimensions: &[u32]) -> Variable {
    Variable {
        attributes: vec![Attribute { name: "units".into(), values: "K".into() }],
        ..Variable::new(name, Type::Float, dimensions.to_vec())
    }
}

/// time (unlimited), z 3, y 10, x 7.
fn header(variables: &[(&str, &[u32])]) -> Header {
    let mut header = Header::new(Format::Cdf5);
    for (name, len) in [("time", 0), ("z", 3), ("y", 10), ("x", 7)] {
        header.dimensions.push(Dimension::classic(name, len));
    }
    header.attributes.push(Attribute { name: "title".into(), values: "a test".into() });
    header.variables = variables.iter().map(|(name, dims)| variable(name, dims)).collect();
    header
}

fn asked() -> Partitioning {
    Partitioning { enabled: true, ..Partitioning::default() }
}

fn table(scheme: &PartitionScheme) -> PartitionTable {
    PartitionTable {
        probe: None,
        id: "0123456789abcdef0123456789abcdef".into(),
        generation: 3,
        master: "a.nc".into(),
        files: (0..scheme.count).map(|k| format!("part{k}.nc")).collect(),
        sizes: (0..scheme.count as u64)
            .map(|k| PartitionSize { fixed_end: 100 + k, record_size: 8 * k })
            .collect(),
    }
}

fn part_of(header: &Header, scheme: &PartitionScheme, k: usize) -> Header {
    let identity = table(scheme).identity_of(k, None);
    headers::partition(header, scheme, k, &identity).unwrap()
}

#[test]
fn the_most_significant_dimension_is_divided() {
    let header = header(&[("a", &[2, 3]), ("b", &[0, 1, 2]), ("c", &[0]), ("d", &[3]), ("s", &[])]);
    let scheme = PartitionScheme::new(&header, &asked(), 4).unwrap().unwrap();
    assert_eq!(scheme.count, 4);
    let dimension = |n: usize| scheme.variables[n].as_ref().map(|division| division.dimension);
    assert_eq!([0, 1, 2, 3, 4].map(dimension), [Some(0), Some(1), None, None, None]);
    let ranges = |n: usize| scheme.variables[n].as_ref().unwrap().ranges.clone();
    assert_eq!(ranges(0), [0..2, 2..5, 5..7, 7..10]);
    // Three indices make three partitions.
    assert_eq!(ranges(1), [0..1, 1..2, 2..3]);
    assert_eq!((scheme.index_in(&header, 1, 2), scheme.index_in(&header, 1, 3)), (Some(1), None));
    // Only what is divided needs partitions.
    assert_eq!(PartitionScheme::new(&header, &asked(), 1).unwrap(), None);
    let more = Partitioning { min_ndims: 3, ..asked() };
    assert_eq!(PartitionScheme::new(&header, &more, 4).unwrap(), None);
    let fewer = Partitioning { min_ndims: 0, ..asked() };
    let scheme = PartitionScheme::new(&header, &fewer, 4).unwrap().unwrap();
    assert!(scheme.variables[3].is_some() && scheme.variables[2].is_none());
}

#[test]
fn a_variable_says_along_which_dimension() {
    let with = |values: Values| {
        let mut header = header(&[("a", &[0, 1, 2]), ("b", &[2])]);
        let attributes = &mut header.variables[0].attributes;
        attributes.push(Attribute { name: "par_dim_id".into(), values });
        PartitionScheme::new(&header, &asked(), 2)
    };
    let dimension = |values: Values| {
        with(values).unwrap().map(|it| it.variables[0].as_ref().unwrap().dimension)
    };
    assert_eq!(dimension("y".into()), Some(2));
    assert_eq!(dimension(Values::Short(vec![1])), Some(1));
    assert_eq!(dimension("none".into()), None);
    assert_eq!(dimension("".into()), None);
    for (values, expected) in [
        (Values::from("x"), "it has no dimension 'x'"),
        (Values::from("time"), "'time' is unlimited"),
        (Values::Int(vec![0]), "'time' is unlimited"),
        (Values::Int(vec![3]), "3 is no position in a list of 3"),
        (Values::Int(vec![-1]), "must be a dimension's name, or its position"),
        (Values::Int(vec![1, 2]), "must be a dimension's name, or its position"),
    ] {
        let error = with(values).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("par_dim_id of variable 'a'"),
            "{error}"
        );
    }
    // The hint counts more.
    let mut header = header(&[("a", &[1, 2])]);
    let attribute = Attribute { name: "par_dim_id".into(), values: "nowhere".into() };
    header.variables[0].attributes.push(attribute);
    let hint = Partitioning { dimensions: vec![("a".into(), "y".into())], ..asked() };
    let scheme = PartitionScheme::new(&header, &hint, 2).unwrap().unwrap();
    assert_eq!(scheme.variables[0].as_ref().unwrap().dimension, 1);
}

#[test]
fn dimensions_that_are_also_used_whole_get_another_name() {
    let mut header = header(&[("a", &[2, 3]), ("b", &[3, 2])]);
    header.dimensions.push(Dimension::classic("y_part", 9));
    let scheme = PartitionScheme::new(&header, &asked(), 2).unwrap().unwrap();
    let part = part_of(&header, &scheme, 1);
    let names: Vec<_> = part.dimensions.iter().map(|it| (it.name.as_str(), it.len)).collect();
    assert_eq!(names, [("y_part_", 5), ("x", 7), ("x_part", 4), ("y", 10)]);
    let range = |n: usize| part.variables[n].attributes.last().unwrap().clone();
    assert_eq!(range(0), Attribute { name: "range(y)".into(), values: Values::Int64(vec![5, 9]) });
    assert_eq!(range(1), Attribute { name: "range(x)".into(), values: Values::Int64(vec![3, 6]) });
    header.variables.pop();
    let scheme = PartitionScheme::new(&header, &asked(), 2).unwrap().unwrap();
    let part = part_of(&header, &scheme, 0);
    assert_eq!(part.dimensions[0], Dimension::classic("y", 5));
    // A square matrix is divided along one of its two.
    let square = Header { variables: vec![variable("m", &[2, 2])], ..header };
    let scheme = PartitionScheme::new(&square, &asked(), 2).unwrap().unwrap();
    let part = part_of(&square, &scheme, 0);
    assert_eq!(part.shape(&part.variables[0]), [5, 10]);
}

#[test]
fn numbers_take_the_smallest_type_that_holds_them() {
    let mut header = header(&[("a", &[2, 3])]);
    header.format = Format::Cdf1;
    let scheme = PartitionScheme::new(&header, &asked(), 2).unwrap().unwrap();
    let mut table = table(&scheme);
    let sizes = |table: &PartitionTable| {
        let master = headers::master(&header, &scheme, table)?;
        Ok::<_, ArrayError>(master.attributes.last().unwrap().values.clone())
    };
    assert_eq!(sizes(&table).unwrap(), Values::Int(vec![100, 0, 101, 8]));
    table.sizes[0].fixed_end = 1 << 40;
    let doubles = vec![2_f64.powi(40), 0.0, 101.0, 8.0];
    assert_eq!(sizes(&table).unwrap(), Values::Double(doubles));
    table.sizes[0].fixed_end = (1 << 53) + 1;
    assert!(sizes(&table).unwrap_err().to_string().contains("partition_sizes"));
}

#[test]
fn damaged_masters_are_refused() {
    let header = header(&[("a", &[2, 3]), ("b", &[0, 1])]);
    let scheme = PartitionScheme::new(&header, &asked(), 3).unwrap().unwrap();
    let master = headers::master(&header, &scheme, &table(&scheme)).unwrap();
    assert!(headers::logical_of(&header, "a.nc").unwrap().is_none());
    let count = |header: &Header| {
        header.attributes.len()
            + header.variables.iter().map(|it| it.attributes.len()).sum::<usize>()
    };
    // Without one of the attributes, or with another value, it is not a master, or an invalid one.
    let mut refused = 0;
    for number in 0..count(&master) {
        for value in [None, Some(Values::Int(vec![7, 7, 7])), Some(Values::Int(vec![]))] {
            let mut damaged = master.clone();
            let mut lists: Vec<&mut Vec<Attribute>> = vec![&mut damaged.attributes];
            lists.extend(damaged.variables.iter_mut().map(|it| &mut it.attributes));
            let mut number = number;
            for list in lists {
                if number < list.len() {
                    match &value {
                        Some(value) => list[number].values = value.clone(),
                        None => drop(list.remove(number)),
                    }
                    break;
                }
                number -= list.len();
            }
            if headers::logical_of(&damaged, "a.nc").is_err() {
                refused += 1;
            }
        }
    }
    assert!(refused >= 28, "{refused}");
}

fn headers_strategy() -> impl Strategy<Value = (Header, Partitioning, u64)> {
    let dims = proptest::collection::vec(1u64..12, 1..5);
    let variables = proptest::collection::vec(
        (any::<bool>(), proptest::collection::vec(0usize..8, 0..4), 0usize..6),
        1..6,
    );
    let format = prop_oneof![Just(Format::Cdf1), Just(Format::Cdf2), Just(Format::Cdf5)];
    (dims, variables, format, 0u64..3, 1u64..8, 0u64..5).prop_map(
        |(dims, variables, format, min_ndims, count, records)| {
            let mut header = Header::new(format);
            header.records = records;
            header.dimensions.push(Dimension::classic("time", 0));
            for (i, &len) in dims.iter().enumerate() {
                header.dimensions.push(Dimension::classic(format!("d{i}"), len));
            }
            header.attributes.push(Attribute { name: "title".into(), values: "a".into() });
            for (i, (record, own, external)) in variables.into_iter().enumerate() {
                let mut list: Vec<u32> = if record { vec![0] } else { vec![] };
                list.extend(own.iter().map(|n| 1 + (n % dims.len()) as u32));
                let mut variable = variable(&format!("v{i}"), &list);
                variable.external = Type::ALL[external];
                header.variables.push(variable);
            }
            (header, Partitioning { min_ndims, ..asked() }, count)
        },
    )
}

proptest! {
    #[test]
    fn ranges_are_balanced(len in 1u64..2000, count in 1u64..300) {
        let ranges = balanced(len, count);
        prop_assert_eq!(ranges.len() as u64, len.min(count));
        prop_assert_eq!(ranges[0].start, 0);
        prop_assert_eq!(ranges[ranges.len() - 1].end, len);
        for pair in ranges.windows(2) {
            prop_assert_eq!(pair[0].end, pair[1].start);
        }
        let lens = || ranges.iter().map(|range| range.end - range.start);
        prop_assert!(lens().max().unwrap() - lens().min().unwrap() <= 1);
        prop_assert!(lens().all(|len| len > 0));
    }

    #[test]
    fn headers_lead_back((header, asked, count) in headers_strategy()) {
        let scheme = PartitionScheme::new(&header, &asked, count).unwrap();
        let Some(scheme) = scheme else { return Ok(()) };
        let table = table(&scheme);
        let mut master = headers::master(&header, &scheme, &table).unwrap();
        let found = headers::logical_of(&master, "a.nc").unwrap().unwrap();
        prop_assert_eq!(&found, &(header.clone(), scheme.clone(), table.clone()));
        // Also once it has been written and read.
        master.arrange(&Alignment::default(), None).unwrap();
        let (read, _) = Header::decode(&master.encode()).unwrap();
        let mut found = headers::logical_of(&read, "a.nc").unwrap().unwrap();
        for variable in &mut found.0.variables {
            (variable.begin, variable.stated_size) = (0, 0);
        }
        prop_assert_eq!(&found, &(header.clone(), scheme.clone(), table));
        // The partitions hold every element once.
        for (index, division) in scheme.variables.iter().enumerate() {
            let Some(division) = division else { continue };
            let whole = header.shape(&header.variables[index]);
            let mut sum = 0;
            for k in 0..scheme.count {
                let Some(own) = scheme.index_in(&header, index, k) else { continue };
                let mut part = part_of(&header, &scheme, k);
                part.arrange(&Alignment::default(), None).unwrap();
                let (read, _) = Header::decode(&part.encode()).unwrap();
                prop_assert_eq!(&read, &part);
                let variable = &part.variables[own];
                prop_assert_eq!(&variable.name, &header.variables[index].name);
                let mut shape = part.shape(variable);
                sum += shape[division.dimension];
                shape[division.dimension] = whole[division.dimension];
                prop_assert_eq!(&shape, &whole);
                let table = headers::partition_identity(&part).unwrap();
                prop_assert_eq!((table.index, table.count), (k as u64, scheme.count as u64));
                prop_assert!(!headers::is_master(&part));
            }
            prop_assert_eq!(sum, whole[division.dimension]);
        }
    }
}

#[test]
fn partitions_have_the_coordinates_of_their_ranges() {
    let header = header(&[
        ("x", &[3]),
        ("a", &[2, 3]),
        ("y", &[2]),
        ("z", &[1]),
        ("time", &[0]),
        ("b", &[0, 2]),
    ]);
    let scheme = PartitionScheme::new(&header, &asked(), 2).unwrap().unwrap();
    assert_eq!(scheme.coordinates, [0, 2, 3, 4]);
    let part = part_of(&header, &scheme, 1);
    let shown: Vec<_> =
        part.variables.iter().map(|it| (it.name.as_str(), part.shape(it))).collect();
    // Nothing here uses z.
    let expected: [(&str, &[u64]); 5] =
        [("a", &[5, 7]), ("x", &[7]), ("y", &[5]), ("b", &[0, 5]), ("time", &[0])];
    assert_eq!(shown, expected.map(|(name, shape)| (name, shape.to_vec())));
    let range = part.variables[2].attributes.last().unwrap();
    assert_eq!((range.name.as_str(), &range.values), ("range(y)", &Values::Int64(vec![5, 9])));
    // What is added comes last, whatever it makes a coordinate of what was there.
    let mut more = header.clone();
    more.variables.push(variable("c", &[2, 1]));
    let more_scheme = scheme.extended(&more, &asked()).unwrap();
    let names = |part: &Header| -> Vec<String> {
        part.variables.iter().map(|it| it.name.clone()).collect()
    };
    let more_part = part_of(&more, &more_scheme, 1);
    assert_eq!(names(&more_part), ["a", "x", "y", "b", "time", "c", "z"]);
    assert_eq!(names(&more_part)[..5], names(&part));
    // A dimension that is also used whole has a coordinate for either.
    more.variables.push(variable("d", &[3, 2]));
    let both = PartitionScheme::new(&more, &asked(), 2).unwrap().unwrap();
    let part = part_of(&more, &both, 0);
    let of = |name: &str| part.variables.iter().find(|it| it.name == name).map(|it| part.shape(it));
    assert_eq!(
        [of("y"), of("y_part"), of("x"), of("x_part")].map(Option::unwrap),
        [[10], [5], [7], [3]]
    );
}

/// Headers of masters come from outside: any content gives a consistent dataset
/// or a reason.
#[test]
fn no_bytes_upset_a_master() {
    let whole = header(&[("a", &[2, 3]), ("b", &[0, 1, 2]), ("c", &[0])]);
    let scheme = PartitionScheme::new(&whole, &asked(), 4).unwrap().unwrap();
    let mut master = headers::master(&whole, &scheme, &table(&scheme)).unwrap();
    master.arrange(&Alignment::default(), None).unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/subfiles/");
    let mut seeds = vec![master.encode()];
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "nc") {
            seeds.push(std::fs::read(path).unwrap());
        }
    }
    assert!(seeds.len() > 1);
    let mut state = 0x5EED_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut bytes = seeds[random(seeds.len())].clone();
        for _ in 0..=random(4) {
            let place = random(bytes.len().min(4096));
            bytes[place] = [0, 1, 2, 0x7f, 0x80, 0xff, b'/', random(256) as u8][random(8)];
        }
        let Ok((header, _)) = Header::decode(&bytes) else { continue };
        let kinds = [headers::logical_of(&header, "a.nc"), subfiles::logical_of(&header, "a.nc")];
        for (logical, scheme, table) in kinds.into_iter().flatten().flatten() {
            understood += 1;
            assert_eq!((table.files.len(), table.sizes.len()), (scheme.count, scheme.count));
            assert_eq!(scheme.variables.len(), logical.variables.len());
            for (variable, division) in logical.variables.iter().zip(&scheme.variables) {
                let Some(division) = division else { continue };
                let id = variable.dimensions[division.dimension] as usize;
                assert_eq!(division.ranges.last().unwrap().end, logical.dimensions[id].len);
                assert!(division.ranges.len() <= scheme.count);
            }
        }
        headers::partition_identity(&header);
        headers::size_of(&header);
    }
    assert!(understood > 300, "{understood}");
}
