//! The time of day as Mooncake writes it into a descriptor, for people who read it there.
//! Deliberately of no use for anything else: no interval is ever made of it. UTC, where theirs is local.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-29 12:42:44.416635`, now.
pub(super) fn now() -> String {
    // A clock before 1970 is a machine without one.
    text(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64)
}

fn text(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// The Gregorian date `days` days after 1 January 1970: years begin in March, so that the leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let january_first = month >= 10;
    let month = if january_first { month - 9 } else { month + 3 };
    (era * 400 + year + u64::from(january_first), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known moments are written right, leap days and ends of years among them.
    #[test]
    fn known_moments() {
        assert_eq!(text(0), "1970-01-01 00:00:00.000000");
        assert_eq!(text(951_782_399_000_001), "2000-02-28 23:59:59.000001");
        assert_eq!(text(951_782_400_000_000), "2000-02-29 00:00:00.000000");
        assert_eq!(text(1_795_956_164_416_635), "2026-11-29 12:42:44.416635");
        assert_eq!(text(1_798_761_599_999_999), "2026-12-31 23:59:59.999999");
        assert_eq!(text(4_107_542_400_000_000), "2100-03-01 00:00:00.000000");
    }
}
