//! `strftime_now`: the time of day and the date, in UTC, as Python's `strftime` writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// 1970 began on the first of them.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The time as a format says.
pub(super) fn now(format: &str) -> Result<String, Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    at(since.as_secs(), format)
}

/// The time in UTC, as RFC 3339 writes it.
#[must_use]
pub fn utc_now() -> String {
    now("%Y-%m-%dT%H:%M:%SZ").unwrap_or_default()
}

/// Seconds since 1970 as a format says.
fn at(seconds: u64, format: &str) -> Result<String, Error> {
    let days = seconds / 86_400;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (year, month, day, of_year) = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days % 7) as usize]);
    let half = if hour < 12 { "AM" } else { "PM" };
    let hour_of_half = (hour + 11) % 12 + 1;
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut kind = letters.next();
        // Without the zero in front.
        let is_bare = kind == Some('-');
        if is_bare {
            kind = letters.next();
        }
        let two = |number: u64| if is_bare { number.to_string() } else { format!("{number:02}") };
        text += &match kind {
            Some('Y') => year.to_string(),
            Some('y') => two(year % 100),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('e') => format!("{day:2}"),
            Some('j') => {
                if is_bare {
                    of_year.to_string()
                } else {
                    format!("{of_year:03}")
                }
            }
            Some('H') => two(hour),
            Some('I') => two(hour_of_half),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('p') => half.to_owned(),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name[..3].to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let other = other.map(String::from).unwrap_or_default();
                return Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know %{other}")));
            }
        };
    }
    Ok(text)
}

/// Year, month, day and day of the year of a day since 1970.
fn date(mut days: u64) -> (u64, u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let of_year = days + 1;
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1, of_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds, text| assert_eq!(at(seconds, "%Y-%m-%d %A %j %H:%M:%S").expect("all are known"), text);
        check(0, "1970-01-01 Thursday 001 00:00:00");
        check(951_782_400, "2000-02-29 Tuesday 060 00:00:00");
        check(1_735_689_599, "2024-12-31 Tuesday 366 23:59:59");
        assert_eq!(at(1_785_585_600, "%d %b %Y, %-I %p").expect("all are known"), "01 Aug 2026, 12 PM");
        assert!(at(0, "%Q").is_err());
    }
}
