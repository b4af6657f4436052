//! Striping on Lustre: the request that hints make, and the agreement of ranks on the layout that
//! the file got.
//!
//! Rank 0 creates the file and broadcasts how it is striped. That becomes the hints in effect, as
//! in other implementations of MPI-IO, so that all ranks align their accesses alike.

use striate_comm::{Comm, CommError};
use striate_store::lustre::{StripeCount, StripeRequest, Striping, StripingReport};

use crate::hints::{Composites, Hints};

/// The striping that the hints request.
pub(crate) fn request(hints: &Hints) -> StripeRequest {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let all = hints.striping_all.then_some(StripeCount::All);
    StripeRequest {
        count: hints.striping_factor.map(|count| StripeCount::Of(small(count))).or(all),
        unit: hints.striping_unit,
        start: hints.start_iodevice.map(small),
        over_composite: hints.lustre_pfl == Composites::Override,
    }
}

/// Gives all ranks the report of rank 0, and makes it the hints in effect. Collective.
pub(crate) fn agree(
    comm: &dyn Comm,
    hints: &mut Hints,
    own: Option<&StripingReport>,
) -> Result<Option<StripingReport>, CommError> {
    let mut text = own.map_or_else(Vec::new, to_text);
    comm.broadcast(0, &mut text)?;
    let requested = request(hints);
    let report = from_text(&text, requested);
    if let Some(actual) = report.as_ref().and_then(|report| report.actual) {
        hints.striping_unit = Some(actual.unit);
        hints.striping_factor = actual.count.map(u64::from);
        hints.striping_all = false;
        hints.start_iodevice = actual.start.map(u64::from);
    }
    Ok(report)
}

/// The layout of the file as four numbers, or nothing; then a space and the difference to the
/// request.
fn to_text(report: &StripingReport) -> Vec<u8> {
    let number = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
    let actual = report.actual.map_or_else(String::new, |actual| {
        let (count, start) = (number(actual.count), number(actual.start));
        format!("{},{count},{start},{}", actual.unit, actual.components)
    });
    format!("{actual} {}", report.difference.as_deref().unwrap_or("")).into_bytes()
}

/// What [`to_text`] made; `None` if there was no report.
fn from_text(text: &[u8], requested: StripeRequest) -> Option<StripingReport> {
    let text = String::from_utf8_lossy(text);
    let (actual, difference) = text.split_once(' ')?;
    let mut numbers = actual.split(',');
    let unit = numbers.next().and_then(|unit| unit.parse().ok());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    let actual = unit.map(|unit| Striping {
        unit,
        count: next(),
        start: next(),
        components: next().unwrap_or(1),
    });
    let difference = (!difference.is_empty()).then(|| difference.to_owned());
    Some(StripingReport { requested, actual, difference })
}

#[cfg(test)]
mod tests {
    use striate_comm::Threads;

    use super::*;
    use crate::FileError;

    fn hints(text: &str) -> Hints {
        text.parse().unwrap()
    }

    #[test]
    fn hints_ask_for_stripes() {
        assert!(request(&Hints::default()).is_empty());
        let asked = request(&hints("striping_factor=4;striping_unit=1MiB;start_iodevice=3"));
        assert_eq!(asked.to_string(), "4 stripes of 1048576 bytes from OST 3 on");
        assert!(!asked.over_composite);
        let all =
            request(&hints("striping_factor=-1;start_iodevice=-1;striate_lustre_pfl=override"));
        assert_eq!((all.count, all.start), (Some(StripeCount::All), None));
        assert!(all.over_composite);
        assert_eq!(
            request(&hints("striping_factor=99999999999")).count,
            Some(StripeCount::Of(u32::MAX))
        );
    }

    #[test]
    fn all_ranks_get_the_report_of_rank_0() {
        let actual = Striping { unit: 1 << 20, count: Some(4), start: Some(7), components: 2 };
        let undecided = Striping { count: None, start: None, ..actual };
        let none = StripingReport {
            requested: StripeRequest::default(),
            actual: None,
            difference: Some("it has no stripes, has it?".into()),
        };
        for report in [
            None,
            Some(StripingReport { difference: None, ..none.clone() }),
            Some(StripingReport { actual: Some(actual), difference: None, ..none.clone() }),
            Some(StripingReport { actual: Some(undecided), ..none.clone() }),
            Some(none),
        ] {
            let run = Threads::new(3).try_run(|comm| {
                let mut hints = hints("striping_factor=9;start_iodevice=1");
                let own = report.as_ref().filter(|_| comm.rank() == 0);
                let agreed = agree(comm.as_ref(), &mut hints, own)?;
                let requested = request(&self::hints("striping_factor=9;start_iodevice=1"));
                let expected = report.clone().map(|report| StripingReport { requested, ..report });
                assert_eq!(agreed, expected);
                match report.as_ref().and_then(|report| report.actual) {
                    None => assert_eq!(hints.striping_factor, Some(9)),
                    Some(actual) => {
                        assert_eq!(hints.striping_unit, Some(1 << 20));
                        assert_eq!(hints.striping_factor, actual.count.map(u64::from));
                        assert_eq!(hints.start_iodevice, actual.start.map(u64::from));
                    }
                }
                Ok::<(), FileError>(())
            });
            run.unwrap();
        }
    }
}
