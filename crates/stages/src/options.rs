//! Values in the options of stages: sizes, times, kinds of operations and errors.

use std::time::Duration;

use rustix::io::Errno;
use serde::de::DeserializeOwned;
use striate_calls::{Kind, Kinds};
use toml::Table;

/// Reads a table.
pub(super) fn read<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}

/// A number of bytes: `4MiB`.
pub(super) fn size(name: &str, text: &str) -> Result<u64, String> {
    let close: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    striate_datatype::parse_size(&close).map_err(|error| format!("{name}: {error}"))
}

/// A time: `200us`, `1.5ms`, `2s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let wrong = || format!("{text:?} is not a time such as 200us, 1.5ms or 2s");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// Kinds of operations by their names.
pub(super) fn kinds(names: &[String]) -> Result<Kinds, String> {
    let one = |name: &String| {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!("kinds: no {name:?}; there are {}", known.join(", "))
        })
    };
    let kinds = names.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    if kinds.is_empty() { Err("kinds: none".into()) } else { Ok(Kinds::of(&kinds)) }
}

macro_rules! errors {
    ($($name:ident $errno:ident),* $(,)?) => {
        /// An error by its name in C.
        pub(super) fn error(name: &str) -> Result<Errno, String> {
            match name {
                $(stringify!($name) => Ok(Errno::$errno),)*
                _ => Err(format!("error: no {name:?}; there are {}", [$(stringify!($name)),*].join(", "))),
            }
        }
    };
}

errors! {
    EACCES ACCESS, EAGAIN AGAIN, EBADF BADF, EBUSY BUSY, EDQUOT DQUOT, EEXIST EXIST, EFBIG FBIG,
    EINTR INTR, EINVAL INVAL, EIO IO, EISDIR ISDIR, EMFILE MFILE, ENFILE NFILE, ENODEV NODEV,
    ENOENT NOENT, ENOLCK NOLCK, ENOMEM NOMEM, ENOSPC NOSPC, ENOTDIR NOTDIR, ENXIO NXIO, EPERM PERM,
    EPIPE PIPE, EROFS ROFS, ESTALE STALE, ETIMEDOUT TIMEDOUT, EXDEV XDEV,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, micros) in [("200us", 200), (" 1.5 ms", 1500), ("2s", 2_000_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for wrong in ["", "5", "us", "1.2.3ms", "5 minutes", "-1s", "1e3s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_known_or_listed() {
        let list =
            |names: &[&str]| kinds(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(list(&["read", "mkdir"]), Ok(Kinds::of(&[Kind::Read, Kind::MakeDirectory])));
        assert!(list(&["reed"]).is_err_and(|reason| reason.contains("read, write")));
        assert!(list(&[]).is_err());
        assert_eq!(error("ENOSPC"), Ok(Errno::NOSPC));
        assert!(error("EWHAT").is_err_and(|reason| reason.contains("EIO")));
        assert_eq!(size("block", "4 MiB"), Ok(4 << 20));
        assert!(size("block", "4 apples").is_err_and(|reason| reason.starts_with("block: ")));
    }
}
