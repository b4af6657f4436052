//! Values out of range: all others are transferred, and the call fails on every rank.

use striate_array::{ArrayError, Format, Pending, Slab, Type, Values};

use crate::{assert_valid, create, message, place, ranks};

const DEFAULT_SHORT: i16 = -32767;
const DEFAULT_BYTE: i8 = -127;

#[test]
fn a_value_out_of_range_on_one_rank() {
    let (_directory, path) = place();
    ranks(3, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let y = define.dimension("y", 3)?;
        let x = define.dimension("x", 4)?;
        let plain = define.variable("plain", Type::Short, &[y, x])?;
        let own = define.variable("own", Type::Short, &[y, x])?;
        define.attribute(own, "_FillValue", -5_i16)?;
        let mut data = define.end()?;
        let rank = comm.rank();
        let row = Slab::new(&[rank as u64, 0], &[1, 4]);
        let mine: [i64; 4] =
            if rank == 1 { [1, 1 << 40, i64::MIN, 4] } else { [rank as i64, 2, 3, 4] };
        for (variable, fill) in [(plain, DEFAULT_SHORT), (own, -5)] {
            for call in 0..4 {
                let result = match call {
                    0 => data.put_all(variable, &row, &mine),
                    1 => {
                        let mut pending = Pending::new();
                        data.iput(&mut pending, variable, &row, &mine)?;
                        data.wait_all(pending)
                    }
                    2 => {
                        let mut pending = Pending::new();
                        data.bput(&mut pending, variable, &row, &mine)?;
                        data.wait_all(pending)
                    }
                    _ => data.put(variable, &row, &mine),
                };
                match result {
                    Ok(()) => assert!(call == 3 && rank != 1),
                    Err(ArrayError::Range { .. }) => assert_eq!(rank, 1),
                    Err(ArrayError::Rank { rank: at_fault, reason }) => {
                        assert!(call < 3 && rank != 1 && at_fault == 1);
                        assert!(reason.contains("is out of the range of its type"), "{reason}");
                    }
                    Err(error) => panic!("{error}"),
                }
                data.sync()?;
                let rows = [[0, 2, 3, 4], [1, fill, fill, 4], [2, 2, 3, 4]];
                let found = data.values(variable, &Slab::all())?;
                assert_eq!(found, Values::Short(rows.concat()), "call {call}");
                comm.barrier()?;
                data.put_all(variable, &row, &[0_i16; 4])?;
            }
        }
        data.close()
    });
    assert_valid(&path);
}

#[test]
fn a_value_out_of_range_of_memory() {
    let (_directory, path) = place();
    ranks(3, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let x = define.dimension("x", 6)?;
        let v = define.variable("v", Type::Int, &[x])?;
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), &[1, 2, 300, -400, 5, 6])?;
        let words =
            "a value of variable 'v' is out of the range of its type; the others were moved";
        let (start, expected) = match comm.rank() {
            0 => (0, [1, 2]),
            1 => (2, [DEFAULT_BYTE, DEFAULT_BYTE]),
            _ => (4, [5, 6]),
        };
        let slab = Slab::new(&[start], &[2]);
        let mut buffer = [0_i8; 2];
        let error = message(data.get_all(v, &slab, &mut buffer));
        assert_eq!(error, if comm.rank() == 1 { words.into() } else { format!("rank 1: {words}") });
        assert_eq!(buffer, expected);
        let mut buffer = [0_i8; 2];
        let mut pending = Pending::new();
        data.iget(&mut pending, v, &slab, &mut buffer)?;
        assert!(message(data.wait_all(pending)).contains(words));
        assert_eq!(buffer, expected);
        let mut buffer = [0_i8; 2];
        assert_eq!(data.get(v, &slab, &mut buffer).is_err(), comm.rank() == 1);
        assert_eq!(buffer, expected);
        // Values in range are no error, although the types could overflow.
        let mut buffer = [0_i16; 2];
        data.get_all(v, &slab, &mut buffer)?;
        data.close()
    });
}

#[test]
fn reals_out_of_range_of_integers() {
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let x = define.dimension("x", 6)?;
        let v = define.variable("v", Type::UByte, &[x])?;
        let mut data = define.end()?;
        let mine = [f64::NAN, -1.0, 0.0, 255.0, 256.0, 3.9];
        assert!(message(data.put_all(v, &Slab::all(), &mine)).contains("'v' is out of the range"));
        assert_eq!(data.values(v, &Slab::all())?, Values::UByte(vec![255, 255, 0, 255, 255, 3]));
        data.close()
    });
}
