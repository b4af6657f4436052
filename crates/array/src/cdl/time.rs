//! [`Times`]: values of time variables as dates, as `ncdump -t` prints them.
//!
//! A variable contains times if its attribute `units` is `UNIT since DATE`, or if another such
//! variable names it as its bounds. The calendars are those of the CF conventions. The arithmetic
//! is that of the cdtime library: hours as floating point numbers, and the same order of
//! operations, so that the last digits are equal.

use std::collections::HashMap;
use std::fmt::Write as _;

use striate_calendar::{Calendar, Date};

use super::number::special;
use crate::format::{Values, Variable};

/// The calendar of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CfCalendar {
    /// Julian up to 4 October 1582, Gregorian from the next day on, which is the 15th.
    Mixed,
    Plain(Calendar),
}

/// The names of calendars; a prefix is sufficient.
const CALENDARS: [(&str, CfCalendar); 11] = [
    ("gregorian", CfCalendar::Mixed),
    ("standard", CfCalendar::Mixed),
    ("proleptic_gregorian", CfCalendar::Plain(Calendar::Gregorian)),
    ("noleap", CfCalendar::Plain(Calendar::NoLeap)),
    ("no_leap", CfCalendar::Plain(Calendar::NoLeap)),
    ("365_day", CfCalendar::Plain(Calendar::NoLeap)),
    ("allleap", CfCalendar::Plain(Calendar::AllLeap)),
    ("all_leap", CfCalendar::Plain(Calendar::AllLeap)),
    ("366_day", CfCalendar::Plain(Calendar::AllLeap)),
    ("360_day", CfCalendar::Plain(Calendar::Days360)),
    ("julian", CfCalendar::Plain(Calendar::Julian)),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Hours per unit.
    Hours(f64),
    /// Units per hour.
    Parts(f64),
    /// Months per unit.
    Months(f64),
}

/// A date, and the hour of the day with its fraction.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Moment {
    date: Date,
    hour: f64,
}

impl Moment {
    const fn midnight(year: i64, month: i64, day: i64) -> Self {
        Self { date: Date { year, month, day }, hour: 0.0 }
    }

    /// Hours since the beginning of 1970.
    fn hours(self, calendar: Calendar) -> f64 {
        calendar.days(self.date) as f64 * 24.0 + self.hour
    }

    /// The moment `hours` after the beginning of 1970.
    fn at(calendar: Calendar, hours: f64) -> Option<Self> {
        let days = (hours / 24.0).floor();
        if days.abs() > MOST_DAYS {
            return None;
        }
        let (mut days, mut hour) = (days as i64, hours - days * 24.0);
        if hour >= 24.0 {
            days += 1;
            hour -= 24.0;
        }
        Some(Self { date: calendar.date(days), hour })
    }

    /// Hours since [`ORIGIN`].
    fn since_origin(self, calendar: Calendar) -> f64 {
        self.hours(calendar) - ORIGIN.hours(calendar)
    }

    /// The moment `hours` later.
    fn later(self, calendar: Calendar, hours: f64) -> Option<Self> {
        let since = self.since_origin(calendar) + hours;
        Self::at(calendar, ORIGIN.hours(calendar) + since)
    }
}

/// The last day of the Julian calendar ends where the first of the Gregorian begins.
const JULIAN_END: Moment = Moment::midnight(1582, 10, 5);
const GREGORIAN_BEGIN: Moment = Moment::midnight(1582, 10, 15);
/// The origin of differences.
const ORIGIN: Moment = Moment::midnight(1979, 1, 1);

/// Larger differences are not dates.
const MOST_DAYS: f64 = 2_147_483_000.0;

/// The interpretation of a variable's values as dates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    calendar: CfCalendar,
    unit: Unit,
    base: Moment,
}

impl Times {
    /// By the attributes of a variable; `None` if its values are not times.
    pub(super) fn of(variable: &Variable) -> Option<Self> {
        let units = text(variable, "units")?;
        let calendar = match text(variable, "calendar") {
            None => CfCalendar::Mixed,
            Some(name) if name.is_empty() => CfCalendar::Mixed,
            Some(name) => {
                let name = name.to_ascii_lowercase();
                // The calendar `none` has no dates.
                if "none".starts_with(&name) && !"noleap".starts_with(&name) {
                    return None;
                }
                let known = CALENDARS.iter().find(|(own, _)| own.starts_with(&name));
                known.map_or(CfCalendar::Mixed, |(_, calendar)| *calendar)
            }
        };
        let (unit, base) = parse(&units)?;
        Some(Self { calendar, unit, base })
    }

    /// A value as a date in quotes; `None` if it has none.
    pub(super) fn date(&self, value: f64) -> Option<String> {
        if !value.is_finite() {
            return None;
        }
        let hours = match self.unit {
            Unit::Hours(each) => each * value,
            Unit::Parts(each) => value / each,
            Unit::Months(each) => return self.months_later(each, value).and_then(shown),
        };
        let moment = match self.calendar {
            CfCalendar::Mixed => self.mixed(hours),
            CfCalendar::Plain(calendar) => Moment::at(calendar, self.base.hours(calendar) + hours),
        };
        moment.and_then(shown)
    }

    /// A value as a date, or as a number if it has none.
    pub(super) fn shown(&self, value: f64) -> String {
        match self.date(value) {
            Some(date) => date,
            None => special(value).map_or_else(|| value.to_string(), ToOwned::to_owned),
        }
    }

    fn mixed(&self, hours: f64) -> Option<Moment> {
        let (julian, gregorian) = (Calendar::Julian, Calendar::Gregorian);
        if self.base < GREGORIAN_BEGIN {
            let left = JULIAN_END.since_origin(julian) - self.base.since_origin(julian);
            if hours <= left {
                self.base.later(julian, hours)
            } else {
                GREGORIAN_BEGIN.later(gregorian, hours - left)
            }
        } else {
            let left = GREGORIAN_BEGIN.since_origin(gregorian) - self.base.since_origin(gregorian);
            if hours > left {
                self.base.later(gregorian, hours)
            } else {
                JULIAN_END.later(julian, hours - left)
            }
        }
    }

    /// Whole months later, at the first of the month.
    fn months_later(&self, each: f64, value: f64) -> Option<Moment> {
        let calendar = match self.calendar {
            CfCalendar::Mixed => Calendar::Gregorian,
            CfCalendar::Plain(calendar) => calendar,
        };
        if value == 0.0 {
            return Some(self.base);
        }
        let months = each * value + if value < 0.0 { -1e-10 } else { 1e-10 };
        if months.abs() > MOST_DAYS {
            return None;
        }
        let begin = Moment::at(calendar, self.base.hours(calendar))?.date;
        let months = months as i64 + begin.month - 1;
        let (year, month) = (begin.year + months.div_euclid(12), months.rem_euclid(12) + 1);
        Some(Moment::midnight(year, month, 1))
    }
}

/// The interpretation of each variable; bounds are interpreted like the variable that names them.
pub(super) fn of_variables(variables: &[Variable]) -> Vec<Option<Times>> {
    let mut bounds: HashMap<String, usize> = HashMap::new();
    for (index, variable) in variables.iter().enumerate() {
        if let Some(name) = text(variable, "bounds") {
            bounds.insert(name, index);
        }
    }
    let of = |variable: &Variable| {
        let parent = bounds.get(&variable.name).and_then(|&index| variables.get(index));
        Times::of(parent.unwrap_or(variable))
    };
    variables.iter().map(of).collect()
}

fn text(variable: &Variable, name: &str) -> Option<String> {
    let found = variable.attributes.iter().find(|attribute| attribute.name == name)?;
    let Values::Char(bytes) = &found.values else { return None };
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// `UNIT since DATE`.
fn parse(units: &str) -> Option<(Unit, Moment)> {
    let units = units.trim_start();
    let (unit, rest) = units.split_once(|c: char| c.is_ascii_whitespace())?;
    let rest = rest.trim_start().strip_prefix("since")?.trim_start();
    let mut words = rest.split_ascii_whitespace();
    let first = words.next()?;
    let date = match first.split_once('T') {
        Some((date, time)) if !date.is_empty() && !time.is_empty() => format!("{date} {time}"),
        Some((date, _)) if !date.is_empty() => date.to_owned(),
        Some(_) => return None,
        None => match words.next() {
            Some(time) => format!("{first} {time}"),
            None => first.to_owned(),
        },
    };
    let unit = unit.to_ascii_lowercase();
    let is = |begin: &str, short: &str| unit.starts_with(begin) || unit == short;
    let unit = if is("sec", "s") {
        Unit::Parts(3600.0)
    } else if is("min", "mn") {
        Unit::Parts(60.0)
    } else if is("hour", "hr") {
        Unit::Hours(1.0)
    } else if is("day", "dy") {
        Unit::Hours(24.0)
    } else if is("week", "wk") {
        Unit::Hours(168.0)
    } else if is("month", "mo") {
        Unit::Months(1.0)
    } else if unit.starts_with("season") {
        Unit::Months(3.0)
    } else if is("year", "yr") {
        Unit::Months(12.0)
    } else {
        return None;
    };
    Some((unit, moment_of(&date)))
}

/// Parses `YEAR-MONTH-DAY HOUR:MINUTE:SECOND`, up to the first part that is not valid.
fn moment_of(date: &str) -> Moment {
    let mut moment = Moment::midnight(0, 1, 1);
    let mut rest = date;
    let mut next = |before: &str| -> Option<i64> {
        rest = rest.strip_prefix(before)?.trim_start();
        let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(rest.len() - digits.len() + len);
        rest = after;
        number.parse().ok()
    };
    let Some(year) = next("") else { return moment };
    moment.date.year = year.clamp(-1_000_000, 1_000_000);
    let Some(month) = next("-") else { return moment };
    moment.date.month = month;
    let Some(day) = next("-") else { return moment };
    moment.date.day = day.clamp(-1000, 1000);
    let Some(hour) = next(" ").filter(|hour| (0..24).contains(hour)) else { return moment };
    moment.hour = hour as f64;
    let Some(minute) = next(":").filter(|minute| (0..60).contains(minute)) else { return moment };
    moment.hour += minute as f64 / 60.0;
    let Some(seconds) = rest.strip_prefix(':') else { return moment };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = seconds.find(|c| !is_number(c)).unwrap_or(seconds.len());
    if let Ok(seconds) = seconds[..end].parse::<f64>()
        && (0.0..=60.0).contains(&seconds)
    {
        moment.hour += seconds / 3600.0;
    }
    moment
}

/// Half a microsecond, in seconds, minutes and hours.
const SECOND: f64 = 0.5e-6;
const MINUTE: f64 = SECOND / 60.0;
const HOUR: f64 = MINUTE / 60.0;

/// In the notation of ISO 8601, without trailing zero parts.
fn shown(moment: Moment) -> Option<String> {
    let Moment { date: Date { year, month, day }, hour } = moment;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0.0..=24.0).contains(&hour) {
        return None;
    }
    let hours = (hour + HOUR).trunc();
    let rest = 60.0 * (hour - hours);
    let minutes = (rest + MINUTE).trunc();
    let seconds = 60.0 * (rest - minutes);
    let whole = (seconds + SECOND).trunc();
    let sign = if year < 0 { "-" } else { "" };
    let mut text = format!("\"{sign}{:04}-{month:02}-{day:02}", year.abs());
    let (h, m) = (hours as i64, minutes as i64);
    if seconds - whole >= SECOND {
        let _ = write!(text, " {h:02}:{m:02}:{seconds:.6}");
    } else if whole != 0.0 {
        let _ = write!(text, " {h:02}:{m:02}:{:02}", whole as i64);
    } else if m != 0 {
        let _ = write!(text, " {h:02}:{m:02}");
    } else if h != 0 {
        let _ = write!(text, " {h:02}");
    }
    text.push('"');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(units: &str, calendar: CfCalendar, value: f64) -> String {
        let (unit, base) = parse(units).unwrap();
        Times { calendar, unit, base }.date(value).unwrap()
    }

    #[test]
    fn calendars_are_those_of_cf() {
        let days = "days since 2000-1-1";
        assert_eq!(date(days, CfCalendar::Mixed, 59.0), "\"2000-02-29\"");
        assert_eq!(date(days, CfCalendar::Plain(Calendar::NoLeap), 59.0), "\"2000-03-01\"");
        assert_eq!(date(days, CfCalendar::Plain(Calendar::Days360), 59.5), "\"2000-02-30 12\"");
        assert_eq!(date(days, CfCalendar::Plain(Calendar::AllLeap), -307.0), "\"1999-02-29\"");
        assert_eq!(date("days since 1582-10-15", CfCalendar::Mixed, -1.0), "\"1582-10-04\"");
        assert_eq!(
            date("days since 1582-10-15", CfCalendar::Plain(Calendar::Gregorian), -1.0),
            "\"1582-10-14\""
        );
        assert_eq!(date("days since 1582-10-04", CfCalendar::Mixed, 1.5), "\"1582-10-15 12\"");
        // For ncdump, the moment of the change is still Julian.
        assert_eq!(date("days since 1582-10-04", CfCalendar::Mixed, 1.0), "\"1582-10-05\"");
        assert_eq!(date("months since 1999-12-31", CfCalendar::Mixed, 2.0), "\"2000-02-01\"");
        assert_eq!(
            date("hours since 1990-01-01T12:00:00Z", CfCalendar::Mixed, 1.0),
            "\"1990-01-01 13\""
        );
        assert_eq!(
            date("seconds since 1970-01-01", CfCalendar::Mixed, -5.0),
            "\"1969-12-31 23:59:55\""
        );
        assert!(
            parse("days").is_none() && parse("m").is_none() && parse("furlongs since 1").is_none()
        );
    }

    /// Whole days are exact in hours.
    #[test]
    fn every_midnight_is_found_again() {
        for calendar in [
            Calendar::Gregorian,
            Calendar::Julian,
            Calendar::NoLeap,
            Calendar::AllLeap,
            Calendar::Days360,
        ] {
            let mut hours = Moment::midnight(1561, 1, 1).hours(calendar);
            for _ in 0..300_000 {
                let moment = Moment::at(calendar, hours).unwrap();
                assert_eq!(moment.hour.to_bits(), 0.0_f64.to_bits(), "{calendar:?}");
                assert_eq!(moment.hours(calendar).to_bits(), hours.to_bits(), "{calendar:?}");
                hours += 24.0;
            }
        }
    }
}
