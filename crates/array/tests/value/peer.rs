//! Conversions compared with netCDF-C, value by value: range errors, and converted values.
//! `tests/peer/convert.c` calls it. The result for a value in error depends on how netCDF-C was
//! built, and is not compared.
//!
//! Intended differences are listed in [`Quirk`].

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use striate_array::Type;
use striate_array::value::{Conversion, InRange, Kind};

use crate::twin::{self, ExactNumber};
use crate::{conversions, edges, element};

/// An intended difference from netCDF-C.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quirk {
    /// NaN passes its comparisons with the limits of an integer type, and the cast that follows is
    /// undefined. Here it is out of range.
    NanToInteger,
    /// An infinity is greater than the greatest number, so it is out of range between the two types
    /// of floating point, although both have it. (From a float in a file to a double in memory it
    /// passes.) Here it is in range.
    InfinityAsReal,
    /// The limit of a 64-bit integer is rounded up when it is compared with floating point, and
    /// passes. Reading gives the greatest integer, as here in both directions; for writing the cast
    /// is undefined.
    RoundedLimit,
}

fn quirk(value: ExactNumber, to: Kind, is_put: bool) -> Option<Quirk> {
    let value = match value {
        ExactNumber::Integer(_) => return None,
        ExactNumber::Single(value) => value.into(),
        ExactNumber::Double(value) => value,
    };
    match twin::limits(to) {
        None if value.is_infinite() => Some(Quirk::InfinityAsReal),
        Some(_) if value.is_nan() => Some(Quirk::NanToInteger),
        Some((_, greatest)) if is_put && to.size() == 8 && value as i128 == greatest + 1 => {
            Some(Quirk::RoundedLimit)
        }
        _ => None,
    }
}

/// netCDF-C in another process.
struct Peer {
    child: Child,
    // The program is deleted with its directory.
    _directory: tempfile::TempDir,
}

impl Peer {
    fn start() -> Self {
        let flags = flags();
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("convert");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer/convert.c");
        let status = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-o"])
            .args([&program, &source])
            .args(&flags)
            .status()
            .unwrap();
        assert!(status.success(), "convert.c does not compile: {status}");
        let child = Command::new(&program)
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, _directory: directory }
    }

    /// Which values were out of range, and all converted values in native byte order.
    fn convert(
        &mut self,
        conversion: &Conversion,
        is_put: bool,
        values: &[u8],
        count: usize,
    ) -> (Vec<bool>, Vec<u8>) {
        let memory = Type::ALL
            .into_iter()
            .find(|&external| twin::kind_of(external) == conversion.memory)
            .unwrap();
        let request = [
            u32::from(!is_put),
            conversion.format.version().into(),
            conversion.external.code(),
            memory.code(),
            count as u32,
        ];
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(bytemuck::cast_slice(&request)).unwrap();
        input.write_all(values).unwrap();
        input.flush().unwrap();

        let size =
            if is_put { conversion.external.size() as usize } else { conversion.memory.size() };
        let output = self.child.stdout.as_mut().unwrap();
        let mut out_of_range = vec![0; count];
        output.read_exact(&mut out_of_range).unwrap();
        let mut converted = vec![0; count * size];
        output.read_exact(&mut converted).unwrap();
        (out_of_range.into_iter().map(|flag| flag == 1).collect(), converted)
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// The output of `nc-config`, if it exists.
fn flags() -> Vec<String> {
    let said = Command::new("nc-config").args(["--cflags", "--libs"]).output();
    match said {
        Ok(said) if said.status.success() => {
            String::from_utf8(said.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
        }
        _ => vec!["-lnetcdf".to_owned()],
    }
}

fn swapped(mut bytes: Vec<u8>, size: usize) -> Vec<u8> {
    if cfg!(target_endian = "little") {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

/// Compares one direction of a conversion; returns the quirks that occurred.
fn compare(peer: &mut Peer, conversion: &Conversion, is_put: bool) -> Vec<Quirk> {
    let external = twin::kind_of(conversion.external);
    let (from, to) =
        if is_put { (conversion.memory, external) } else { (external, conversion.memory) };
    let values = edges::of(from);
    let count = values.len() / from.size();
    let (out_of_range, theirs) = peer.convert(conversion, is_put, &values, count);
    let mut quirks = Vec::new();
    for (i, &is_out) in out_of_range.iter().enumerate() {
        let bytes = element(&values, from.size(), i);
        let value = ExactNumber::in_memory(from, bytes);
        // One value at a time, so that each has its own result.
        let mut ours = vec![0; to.size()];
        let result = if is_put {
            let result = conversion.encode(bytes, &mut ours);
            ours = swapped(ours, to.size());
            result
        } else {
            conversion.decode(&swapped(bytes.to_vec(), from.size()), &mut ours)
        };
        let ours = ExactNumber::in_memory(to, &ours);
        let theirs = ExactNumber::in_memory(to, element(&theirs, to.size(), i));
        let errors_agree = (result == InRange::NotAll) == is_out;
        if errors_agree && (is_out || ours.is_same_as(theirs)) {
            continue;
        }
        let Some(quirk) = quirk(value, to, is_put) else {
            panic!(
                "{value:?} by {conversion:?}, put {is_put}: {ours:?}, {result:?}; \
                 netCDF has {theirs:?}, out of range {is_out}"
            );
        };
        quirks.push(quirk);
    }
    quirks
}

#[test]
fn netcdf_c_converts_equally() {
    let mut peer = Peer::start();
    let mut quirks = Vec::new();
    for conversion in conversions() {
        for is_put in [true, false] {
            quirks.extend(compare(&mut peer, &conversion, is_put));
        }
    }
    peer.end();
    for quirk in [Quirk::NanToInteger, Quirk::InfinityAsReal, Quirk::RoundedLimit] {
        eprintln!("{quirk:?}: {}", quirks.iter().filter(|&&seen| seen == quirk).count());
    }
}
