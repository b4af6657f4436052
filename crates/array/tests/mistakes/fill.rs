//! Fill mode: which data reads as fill values.

use striate_array::{Dataset, Format, OpenMode, Options, Pending, Slab, Type, Values, VariableId};

use crate::{FORMATS, assert_valid, create, message, open, place, ranks};

/// netCDF's default fill values.
fn default_fill(external: Type, count: usize) -> Values {
    match external {
        Type::Byte => vec![-127_i8; count].into(),
        Type::Char => Values::Char(vec![0; count]),
        Type::Short => vec![-32767_i16; count].into(),
        Type::Int => vec![-2_147_483_647_i32; count].into(),
        Type::Float => vec![9.969_21e36_f32; count].into(),
        Type::Double => vec![9.969_209_968_386_869e36_f64; count].into(),
        Type::UByte => vec![255_u8; count].into(),
        Type::UShort => vec![65535_u16; count].into(),
        Type::UInt => vec![4_294_967_295_u32; count].into(),
        Type::Int64 => vec![-9_223_372_036_854_775_806_i64; count].into(),
        Type::UInt64 => vec![18_446_744_073_709_551_614_u64; count].into(),
        other => unreachable!("{other} is in no classic file"),
    }
}

fn zeros(external: Type, count: usize) -> Values {
    Values::from_bytes(external, &vec![0; count * external.size() as usize])
}

fn types(format: Format) -> impl Iterator<Item = Type> {
    Type::ALL.into_iter().filter(move |external| external.is_in(format))
}

fn assert_all(data: &mut Dataset, what: impl Fn(Type, usize) -> Values) {
    let variables: Vec<VariableId> = data.variables().collect();
    for variable in variables {
        let external = data.header().variables[variable.index()].external;
        let count = data.shape(variable).iter().product::<u64>() as usize;
        let found = data.values(variable, &Slab::all()).unwrap();
        assert_eq!(found, what(external, count), "{external}");
    }
}

#[test]
fn every_type_has_its_default() {
    for format in FORMATS {
        let (_directory, path) = place();
        ranks(3, |comm| {
            // Many small requests, so that the shares of the ranks cut elements.
            let options = Options::default().with("cb_buffer_size", "7")?;
            let mut define = Dataset::create(&comm, &path, format, &options)?;
            define.fill_all(true);
            let time = define.unlimited("time")?;
            let x = define.dimension("x", 5)?;
            for external in types(format) {
                define.variable(&format!("fixed_{external}"), external, &[x])?;
                define.variable(&format!("scalar_{external}"), external, &[])?;
                define.variable(&format!("record_{external}"), external, &[time, x])?;
            }
            let mut data = define.end()?;
            assert_all(&mut data, default_fill);
            // Records are filled when they are added, by `grow` or by a write to a later record.
            data.grow(2)?;
            assert_eq!(data.header().records, 2);
            assert_all(&mut data, default_fill);
            let series = data.variable("record_int")?;
            data.put_all(series, &Slab::element(&[4, comm.rank() as u64]), &[7])?;
            let name = data.variable("record_char")?;
            assert_eq!(data.values(name, &Slab::all())?, Values::Char(vec![0; 25]));
            let d = data.variable("record_double")?;
            assert_eq!(data.values(d, &Slab::all())?, default_fill(Type::Double, 25));
            let mut expected = vec![-2_147_483_647; 25];
            expected[20..23].fill(7);
            assert_eq!(data.values(series, &Slab::all())?, expected.into());
            data.close()
        });
        assert_valid(&path);
    }
}

#[test]
fn nothing_is_filled_by_default() {
    for format in FORMATS {
        let (_directory, path) = place();
        ranks(2, |comm| {
            let mut define = create(&comm, &path, format);
            let time = define.unlimited("time")?;
            let x = define.dimension("x", 5)?;
            for external in types(format) {
                define.variable(&format!("fixed_{external}"), external, &[x])?;
                define.variable(&format!("record_{external}"), external, &[time, x])?;
            }
            define.fill_all(true);
            define.fill_all(false);
            let mut data = define.end()?;
            assert_all(&mut data, zeros);
            data.grow(3)?;
            assert_all(&mut data, zeros);
            data.close()
        });
        assert_valid(&path);
        ranks(3, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            assert_eq!(data.header().records, 3);
            assert_all(&mut data, zeros);
            data.close()
        });
    }
}

#[test]
fn independent_calls_cannot_add_records_in_fill_mode() {
    let (_directory, path) = place();
    ranks(3, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let time = define.unlimited("time")?;
        let x = define.dimension("x", 3)?;
        let plain = define.variable("plain", Type::Int, &[time, x])?;
        let filled = define.variable("filled", Type::Short, &[time, x])?;
        define.fill(filled, true);
        define.attribute(filled, "_FillValue", -1_i16)?;
        let mut data = define.end()?;
        let mine = Slab::element(&[1, comm.rank() as u64]);
        let words = "it makes new records, which are to be filled by all ranks together: \
                     call grow first, or put_all";
        for variable in [plain, filled] {
            assert!(message(data.put(variable, &mine, &[5])).ends_with(words));
            let mut pending = Pending::new();
            data.iput(&mut pending, variable, &mine, &[5])?;
            assert!(message(data.wait(pending)).ends_with(words));
        }
        assert_eq!(data.header().records, 0);
        // The largest number of all ranks is used.
        data.grow(if comm.rank() == 1 { 2 } else { 0 })?;
        data.put(plain, &mine, &[5])?;
        data.put(filled, &mine, &[6])?;
        data.sync()?;
        let all = Slab::all();
        assert_eq!(data.values(plain, &all)?, vec![0, 0, 0, 5, 5, 5].into());
        assert_eq!(data.values(filled, &all)?, vec![-1_i16, -1, -1, 6, 6, 6].into());
        // A smaller number has no effect.
        data.grow(1)?;
        assert_eq!(data.header().records, 2);
        data.close()
    });
    assert_valid(&path);
}

#[test]
fn a_redefinition_fills_only_what_is_new() {
    for format in FORMATS {
        let (_directory, path) = place();
        ranks(2, |comm| {
            let mut define = create(&comm, &path, format);
            let time = define.unlimited("time")?;
            let x = define.dimension("x", 3)?;
            let old = define.variable("old", Type::Short, &[time, x])?;
            let fixed = define.variable("fixed", Type::Short, &[x])?;
            let mut data = define.end()?;
            if comm.rank() == 1 {
                data.put(old, &Slab::new(&[0, 0], &[2, 3]), &[1, 2, 3, 4, 5, 6])?;
            }
            data.put_all(fixed, &Slab::all(), &[7, 8, 9])?;
            let mut define = data.redefine()?;
            define.fill_all(true);
            let new = define.variable("new", Type::Double, &[time, x])?;
            let scalar = define.variable("scalar", Type::Int, &[])?;
            let mut data = define.end()?;
            let all = Slab::all();
            for step in 0..2 {
                assert_eq!(data.values(old, &all)?, vec![1_i16, 2, 3, 4, 5, 6].into(), "{step}");
                assert_eq!(data.values(fixed, &all)?, vec![7_i16, 8, 9].into());
                assert_eq!(data.values(new, &all)?, default_fill(Type::Double, 6));
                assert_eq!(data.values(scalar, &all)?, default_fill(Type::Int, 1));
                data.sync()?;
            }
            data.grow(3)?;
            let third = Slab::new(&[2, 0], &[1, 3]);
            assert_eq!(data.values(old, &third)?, default_fill(Type::Short, 3));
            assert_eq!(data.values(new, &third)?, default_fill(Type::Double, 3));
            data.close()
        });
        assert_valid(&path);
    }
}
