//! Samples as text: in messages between ranks, and in the cache file.
//!
//! Lines of fields with tabs between them. A cache file has a version and ends with a hash of
//! everything before, so that damage is noticed.

use std::fmt::Write as _;
use std::time::Duration;

use super::Sample;
use crate::user_cache::hash;

/// The first line of a cache file.
const VERSION: &str = "striate-probe 1";

/// What rank 0 broadcasts first.
#[derive(Debug, PartialEq)]
pub(super) struct ProbeStart {
    /// Of the targets and the size.
    pub(super) fingerprint: u64,
    /// The age of the cached samples, and the samples in the order of the targets.
    pub(super) cached: Option<(Duration, Vec<Sample>)>,
}

impl ProbeStart {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\n", self.fingerprint);
        if let Some((age, samples)) = &self.cached {
            let _ = writeln!(text, "{}", age.as_millis());
            for sample in samples {
                let _ = writeln!(text, "{}", line(sample));
            }
        }
        text.into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let fingerprint = lines.next()?.parse().ok()?;
        let cached = match lines.next() {
            Some(age) => {
                let samples = lines.map(sample).collect::<Option<Vec<_>>>()?;
                Some((Duration::from_millis(age.parse().ok()?), samples))
            }
            None => None,
        };
        Some(Self { fingerprint, cached })
    }
}

/// The results of a rank, with the numbers of their targets, and whether it was asked to stop.
pub(super) type Results = Vec<(usize, Result<Sample, String>)>;

pub(super) fn to_bytes(results: &Results, stopped: bool) -> Vec<u8> {
    let mut text = String::from(if stopped { "stopped\n" } else { "done\n" });
    for (index, outcome) in results {
        let _ = match outcome {
            Ok(sample) => writeln!(text, "{index}\tok\t{}", line(sample)),
            Err(reason) => writeln!(text, "{index}\tfailed\t{}", escaped(reason)),
        };
    }
    text.into_bytes()
}

pub(super) fn from_bytes(bytes: &[u8]) -> (Results, bool) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let stopped = lines.next() == Some("stopped");
    let result = |line: &str| {
        let (index, rest) = line.split_once('\t')?;
        let (kind, rest) = rest.split_once('\t')?;
        let outcome = match kind {
            "ok" => Ok(sample(rest)?),
            _ => Err(unescaped(rest)),
        };
        Some((index.parse().ok()?, outcome))
    };
    (lines.filter_map(result).collect(), stopped)
}

/// Samples with the names of their targets, and when they were taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampleFile {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    /// Host, size and targets.
    pub(super) key: String,
    pub(super) samples: Vec<(String, Sample)>,
}

impl SampleFile {
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{VERSION}\n{}\n{}\n", self.time, escaped(&self.key));
        for (name, sample) in &self.samples {
            let _ = writeln!(text, "{}\t{}", line(sample), escaped(name));
        }
        let sum = hash(text.as_bytes());
        let _ = writeln!(text, "{sum:016x}");
        text
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let body = text.strip_suffix('\n')?;
        let (body, sum) = body.split_at(body.rfind('\n')? + 1);
        if u64::from_str_radix(sum, 16).ok()? != hash(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != VERSION {
            return None;
        }
        let time = lines.next()?.parse().ok()?;
        let key = unescaped(lines.next()?);
        let named = |line: &str| {
            let (numbers, name) = line.rsplit_once('\t')?;
            Some((unescaped(name), sample(numbers)?))
        };
        let samples = lines.map(named).collect::<Option<_>>()?;
        Some(Self { time, key, samples })
    }
}

fn line(sample: &Sample) -> String {
    let direct = if sample.direct { "direct" } else { "synced" };
    format!("{}\t{:e}\t{direct}", sample.bytes, sample.seconds)
}

fn sample(line: &str) -> Option<Sample> {
    let mut fields = line.split('\t');
    let bytes = fields.next()?.parse().ok()?;
    let seconds: f64 = fields.next()?.parse().ok()?;
    let direct = fields.next()? == "direct";
    let makes_sense = bytes > 0 && seconds.is_finite() && seconds > 0.0;
    (makes_sense && fields.next().is_none()).then_some(Sample { bytes, seconds, direct })
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\t', "\\t");
    text.replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached() -> SampleFile {
        let sample = |bytes, seconds| Sample { bytes, seconds, direct: bytes % 2 == 0 };
        let samples = vec![("/a\tb\\n\n#3".into(), sample(7, 0.1)), ("b".into(), sample(8, 3e-9))];
        SampleFile { time: 17, key: "host\n16\n/a".into(), samples }
    }

    #[test]
    fn results_arrive() {
        let sample = Sample { bytes: 5, seconds: 0.3, direct: true };
        let results = vec![(3, Ok(sample)), (0, Err("a\tb\nc \\ d".to_owned()))];
        assert_eq!(from_bytes(&to_bytes(&results, false)), (results.clone(), false));
        assert_eq!(from_bytes(&to_bytes(&results, true)), (results, true));
        assert_eq!(from_bytes(b"\xFFnoise\n1\tok\tx\n"), (Vec::new(), false));
        for cached in [None, Some((Duration::from_millis(5), vec![sample, sample]))] {
            let start = ProbeStart { fingerprint: u64::MAX, cached };
            assert_eq!(ProbeStart::from_bytes(&start.to_bytes()), Some(start));
        }
        assert_eq!(ProbeStart::from_bytes(b""), None);
    }

    #[test]
    fn cached_samples_read_back() {
        assert_eq!(SampleFile::from_text(&cached().to_text()), Some(cached()));
    }

    #[test]
    fn damage_is_noticed() {
        let text = cached().to_text();
        for end in 0..text.len() {
            assert_eq!(SampleFile::from_text(&text[..end]), None, "{end}");
        }
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert_eq!(SampleFile::from_text(&changed), None, "{place}");
        }
        // A version that is not known yet.
        let body = text.replace(VERSION, "striate-probe 2");
        let body = &body[..=body.trim_end().rfind('\n').unwrap()];
        assert_eq!(SampleFile::from_text(&format!("{body}{:016x}\n", hash(body.as_bytes()))), None);
    }
}
