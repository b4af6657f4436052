//! The calendars of the CF conventions: dates to days since the beginning of 1970, and back.
//!
//! [`Calendar`] says which years have a leap day, and counts; [`utc`] is the date and time of day
//! that people are shown. Climate models count in calendars that no library for dates has (years of
//! 360 days, leap days in all years or in none), so all of them share one loop over years instead
//! of a formula each.

/// A calendar, extended to all years before and after its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// A leap day in years divisible by 4, but of the hundreds only in those divisible by 400.
    Gregorian,
    /// A leap day in years divisible by 4.
    Julian,
    /// 365 days in all years.
    NoLeap,
    /// 366 days in all years.
    AllLeap,
    /// 12 months of 30 days.
    Days360,
}

/// A date. Fields are compared in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// The year; the one before 1 is 0.
    pub year: i64,
    /// The month, from 1 to 12.
    pub month: i64,
    /// The day of the month, from 1 on.
    pub day: i64,
}

/// Days before each month, in a year without a leap day.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

const SECONDS_PER_DAY: u64 = 86_400;

impl Calendar {
    /// Whether a year has a leap day.
    pub const fn is_leap(self, year: i64) -> bool {
        match self {
            Self::AllLeap => true,
            Self::NoLeap | Self::Days360 => false,
            Self::Julian => year % 4 == 0,
            Self::Gregorian => year % 4 == 0 && (year % 100 != 0 || year % 400 == 0),
        }
    }

    /// The days of a month, which is one of 1 to 12.
    pub const fn days_of_month(self, year: i64, month: i64) -> i64 {
        match (self, month) {
            (Self::Days360, _) | (_, 4 | 6 | 9 | 11) => 30,
            (_, 2) => 28 + self.is_leap(year) as i64,
            _ => 31,
        }
    }

    const fn days_of_year(self, year: i64) -> i64 {
        match self {
            Self::Days360 => 360,
            _ => 365 + self.is_leap(year) as i64,
        }
    }

    /// Days of 400 years.
    const fn cycle(self) -> i64 {
        match self {
            Self::Days360 => 144_000,
            Self::NoLeap => 146_000,
            Self::AllLeap => 146_400,
            Self::Julian => 146_100,
            Self::Gregorian => 146_097,
        }
    }

    /// Days since the beginning of 1970. The day may lie outside of its month; a month outside of 1
    /// to 12 counts as the first.
    pub fn days(self, date: Date) -> i64 {
        let month = if (1..=12).contains(&date.month) { date.month } else { 1 };
        let leap = i64::from(self.is_leap(date.year) && month > 2);
        let before = match self {
            Self::Days360 => 30 * (month - 1),
            _ => DAYS_BEFORE[month as usize - 1],
        };
        let cycles = (date.year - 1970).div_euclid(400);
        let first = 1970 + 400 * cycles;
        let years: i64 = (first..date.year).map(|year| self.days_of_year(year)).sum();
        cycles * self.cycle() + years + before + leap + date.day - 1
    }

    /// The date so many days after the beginning of 1970.
    pub fn date(self, days: i64) -> Date {
        let mut year = 1970 + 400 * days.div_euclid(self.cycle());
        let mut left = days.rem_euclid(self.cycle());
        while left >= self.days_of_year(year) {
            left -= self.days_of_year(year);
            year += 1;
        }
        let mut month = 1;
        while month < 12 && left >= self.days_of_month(year, month) {
            left -= self.days_of_month(year, month);
            month += 1;
        }
        Date { year, month, day: left + 1 }
    }
}

/// Seconds since 1970 as date and time of day of UTC.
pub fn utc(seconds: u64) -> String {
    let Date { year, month, day } = Calendar::Gregorian.date((seconds / SECONDS_PER_DAY) as i64);
    let second = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_208_000, "2024-02-29 12:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn the_last_second_is_a_date() {
        assert_eq!(utc(u64::MAX), "584554051223-11-09 07:00:15 UTC");
    }

    /// The twin: counts days one by one.
    #[test]
    fn every_day_follows_the_one_before() {
        for calendar in [
            Calendar::Gregorian,
            Calendar::Julian,
            Calendar::NoLeap,
            Calendar::AllLeap,
            Calendar::Days360,
        ] {
            let mut expected = Date { year: 1561, month: 1, day: 1 };
            let first = calendar.days(expected);
            for days in first..first + 300_000 {
                assert_eq!(calendar.date(days), expected, "{calendar:?}");
                assert_eq!(calendar.days(expected), days, "{calendar:?}");
                expected.day += 1;
                if expected.day > calendar.days_of_month(expected.year, expected.month) {
                    (expected.day, expected.month) = (1, expected.month + 1);
                }
                if expected.month > 12 {
                    (expected.month, expected.year) = (1, expected.year + 1);
                }
            }
        }
    }
}
