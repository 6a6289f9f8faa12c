//! The one reader of sizes, times, counts and shares, for the file, the environment and the command line.
//! Exact: decimals are never rounded through floating point. Deliberately strict about what is ambiguous.
//!
//! Sizes: `65536`, `64KiB`, `64 KiB`, `64kib`, `64KB` (= 64 000), `1.5GiB`, `1e9`, `0x10`, up to 15EiB and beyond to
//! 2^64 − 1. Refused: `64K` (1 000 or 1 024?), a negative size, a fraction of a byte.
//! Times: `20us`, `1.5s`, `1m30s`; a bare number is refused, because nobody agrees on its unit.

/// Why a value cannot be read: what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// It could be read, but is below zero or above what 64 bits hold.
    pub out_of_range: bool,
}

impl UnitError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), out_of_range: false }
    }

    fn range(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { out_of_range: true, ..Self::new(message, help) }
    }
}

const SIZE_HELP: &str = "write a size as 65536, \"64KiB\" (65536 bytes) or \"64KB\" (64000 bytes)";
const TIME_HELP: &str = "write a time with its unit: \"20us\", \"1ms\", \"1.5s\", \"1m30s\", \"2h\"";
const COUNT_HELP: &str = "write a whole number, such as 64";
const SHARE_HELP: &str = "write a share in percent: \"25%\"";

const SIZES: &[(&str, u128)] = &[
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("eib", 1 << 60),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("eb", 1_000_000_000_000_000_000),
];

const TIMES: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const RATES: &[(&str, u128)] = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("mbit/s", 1_000_000),
    ("gbit/s", 1_000_000_000),
    ("tbit/s", 1_000_000_000_000),
];

/// Bits a second.
///
/// # Errors
/// The text is not a rate, or not one that 64 bits hold.
pub fn bits_per_second(text: &str) -> Result<u64, UnitError> {
    const HELP: &str = "write a rate in bits a second: \"200Gbit/s\"";
    let (number, unit) = split(text, HELP)?;
    match lookup(RATES, &unit.to_lowercase()) {
        Some(scale) => number.scaled(scale, "rate", "bit", HELP),
        None if unit.is_empty() => Err(UnitError::new(format!("\"{}\" has no unit", text.trim()), HELP)),
        None => Err(UnitError::new(format!("`{unit}` is not a unit of rates"), HELP)),
    }
}

/// As a person writes it: `200Gbit/s`.
pub fn show_bits_per_second(bits: u64) -> String {
    let fits = |(_, scale): &&(&str, u128)| u128::from(bits) >= *scale && u128::from(bits) % *scale == 0;
    match RATES.iter().rev().find(fits) {
        Some(("bit/s", _)) | None => format!("{bits}bit/s"),
        Some((unit, scale)) => {
            format!("{}{}{}", u128::from(bits) / scale, unit[..1].to_uppercase(), &unit[1..])
        }
    }
}

/// Bytes.
///
/// # Errors
/// The text is not a size, or not one that 64 bits hold.
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, SIZE_HELP)?;
    let lower = unit.to_lowercase();
    let scale = if unit.is_empty() { Some(1) } else { lookup(SIZES, &lower) };
    let Some(scale) = scale else {
        let both = |binary: &str, decimal: &str| {
            format!("write \"{0}{binary}\" or \"{0}{decimal}\"", number.text.trim())
        };
        let help = match lower.as_str() {
            "k" => both("KiB", "KB"),
            "m" => both("MiB", "MB"),
            "g" => both("GiB", "GB"),
            "t" => both("TiB", "TB"),
            _ => SIZE_HELP.to_owned(),
        };
        let why = if help == SIZE_HELP { "is not a unit of size" } else { "is ambiguous" };
        return Err(UnitError::new(format!("`{unit}` {why}"), help));
    };
    number.scaled(scale, "size", "byte", SIZE_HELP)
}

/// Nanoseconds.
///
/// # Errors
/// The text is not a time, or not one that 64 bits of nanoseconds hold.
pub fn nanos(text: &str) -> Result<u64, UnitError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(UnitError::new("the time is empty", TIME_HELP));
    }
    let mut total = 0u64;
    let mut last = u128::MAX;
    while !rest.is_empty() {
        let (number, tail) = split(rest, TIME_HELP)?;
        let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        if unit.is_empty() {
            let help = if tail.is_empty() { with_unit(number.text) } else { TIME_HELP.to_owned() };
            return Err(UnitError::new(format!("`{}` has no unit of time", rest.trim()), help));
        }
        let Some(scale) = lookup(TIMES, unit).or_else(|| lookup(TIMES, &unit.to_lowercase())) else {
            return Err(UnitError::new(format!("`{unit}` is not a unit of time"), TIME_HELP));
        };
        if scale >= last {
            return Err(UnitError::new("units of time must go from large to small", TIME_HELP));
        }
        last = scale;
        let part = number.scaled(scale, "time", "nanosecond", TIME_HELP)?;
        total = total.checked_add(part).ok_or_else(|| UnitError::range("the time is too long", TIME_HELP))?;
        rest = next.trim_start();
    }
    Ok(total)
}

/// A whole number.
///
/// # Errors
/// The text is not a whole number, or not one that 64 bits hold.
pub fn count(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, COUNT_HELP)?;
    if !unit.is_empty() {
        return Err(UnitError::new(format!("`{}` is not a whole number", text.trim()), COUNT_HELP));
    }
    number.scaled(1, "number", "unit", COUNT_HELP)
}

/// Percent, from `"25%"`.
///
/// # Errors
/// The text is not a whole number of percent.
pub fn percent(text: &str) -> Result<u64, UnitError> {
    let Some(number) = text.trim().strip_suffix('%') else {
        let help = count(text).map_or(SHARE_HELP.to_owned(), |n| format!("write \"{n}%\""));
        return Err(UnitError::new(format!("`{}` is not a share", text.trim()), help));
    };
    count(number).map_err(|e| UnitError { help: SHARE_HELP.to_owned(), ..e })
}

/// Bytes as a person writes them, exactly: the largest binary unit that divides, else the plain number.
pub fn show_bytes(bytes: u64) -> String {
    const NAMES: &[(&str, u32)] =
        &[("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (name, shift) in NAMES {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{name}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// Nanoseconds as a person writes them, exactly.
pub fn show_nanos(nanos: u64) -> String {
    const NAMES: &[(&str, u64)] = &[
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    for (name, scale) in NAMES {
        if nanos >= *scale && nanos.is_multiple_of(*scale) {
            return format!("{}{name}", nanos / scale);
        }
    }
    if nanos == 0 { String::from("0s") } else { format!("{nanos}ns") }
}

fn with_unit(number: &str) -> String {
    let number = number.trim();
    format!("write the unit too, such as \"{number}s\" or \"{number}ms\"")
}

fn lookup(units: &[(&str, u128)], unit: &str) -> Option<u128> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

/// A decimal: `digits × 10^-places`, exactly.
struct Decimal<'a> {
    text: &'a str,
    digits: u128,
    places: i32,
}

impl Decimal<'_> {
    /// The number of small units, if it is whole and 64 bits hold it.
    fn scaled(&self, scale: u128, what: &str, small: &str, help: &str) -> Result<u64, UnitError> {
        let too_large = || UnitError::range(format!("the {what} is larger than 64 bits hold"), help);
        let raised = self.digits.checked_mul(scale).ok_or_else(too_large)?;
        let whole = if self.places <= 0 {
            let ten = 10u128.checked_pow(self.places.unsigned_abs());
            if raised == 0 { 0 } else { ten.and_then(|t| raised.checked_mul(t)).ok_or_else(too_large)? }
        } else {
            let fraction =
                || UnitError::new(format!("`{}` is not a whole number of {small}s", self.text.trim()), help);
            let ten = 10u128.checked_pow(self.places.unsigned_abs());
            match ten {
                Some(ten) if raised % ten == 0 => raised / ten,
                None if raised == 0 => 0,
                _ => return Err(fraction()),
            }
        };
        u64::try_from(whole).map_err(|_| too_large())
    }
}

/// Cuts a number off the front; what follows, without spaces before it, is the unit.
fn split<'a>(text: &'a str, help: &str) -> Result<(Decimal<'a>, &'a str), UnitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitError::new("the value is empty", help));
    }
    if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return Err(UnitError::range(format!("`{text}` is below zero"), help));
    }
    let body = text.strip_prefix('+').unwrap_or(text);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        let digits = body.strip_prefix(prefix).filter(|d| d.starts_with(|c: char| c.is_digit(radix)));
        if let Some(digits) = digits {
            let digits = digits.replace('_', "");
            let number = u128::from_str_radix(&digits, radix)
                .map_err(|_| UnitError::new(format!("`{text}` is not a number"), help))?;
            return Ok((Decimal { text, digits: number, places: 0 }, ""));
        }
    }
    decimal(body, help)
}

fn decimal<'a>(text: &'a str, help: &str) -> Result<(Decimal<'a>, &'a str), UnitError> {
    let bytes = text.as_bytes();
    let (mut digits, mut places, mut at, mut seen, mut point) = (0u128, 0i32, 0, false, false);
    while at < bytes.len() {
        match bytes[at] {
            digit @ b'0'..=b'9' => {
                seen = true;
                let longer = digits.checked_mul(10).and_then(|d| d.checked_add(u128::from(digit - b'0')));
                let too_long = || UnitError::range("the number is larger than 64 bits hold", help);
                digits = longer.ok_or_else(too_long)?;
                places += i32::from(point);
            }
            b'_' if seen => {}
            b'.' if seen && !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if !seen || text[..at].ends_with(['.', '_']) {
        return Err(UnitError::new(format!("`{text}` has no number in front"), help));
    }
    // An exponent, but not the E of EiB: digits must follow.
    let tail = &text[at..];
    if let Some(exponent) = tail.strip_prefix(['e', 'E']) {
        let end =
            exponent.char_indices().find(|(i, c)| !(c.is_ascii_digit() || *i == 0 && "+-".contains(*c)));
        let end = end.map_or(exponent.len(), |(i, _)| i);
        if exponent[..end].ends_with(|c: char| c.is_ascii_digit()) {
            let power: i32 = exponent[..end].parse().unwrap_or(i32::MAX / 2);
            places = places.saturating_sub(power.clamp(-1000, 1000));
            at += 1 + end;
        }
    }
    Ok((Decimal { text: &text[..at], digits, places }, text[at..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B44: every line of its table.
    #[test]
    fn sizes() {
        let ok: &[(&str, u64)] = &[
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("64kib", 65_536),
            ("64KB", 64_000),
            ("1.5GiB", 1_610_612_736),
            ("65536", 65_536),
            ("65_536", 65_536),
            (" 8 ", 8),
            ("15EiB", 17_293_822_569_102_704_640),
            ("18446744073709551615", u64::MAX),
            ("1e9", 1_000_000_000),
            ("1.5e3", 1_500),
            ("1E3KiB", 1_024_000),
            ("0x10", 16),
            ("0b", 0),
            ("1EB", 1_000_000_000_000_000_000),
            ("2eb", 2_000_000_000_000_000_000),
            ("0.5KiB", 512),
        ];
        for (text, want) in ok {
            assert_eq!(bytes(text), Ok(*want), "{text}");
        }
        for text in
            ["", " ", "KiB", "1KiBB", "0.1KiB", "1.5", "64K", "1..5KiB", "1.KiB", "_1", "0xz", "é", "1é"]
        {
            let error = bytes(text).unwrap_err();
            assert!(!error.out_of_range && !error.help.is_empty(), "{text}: {error:?}");
        }
        for text in
            ["16EiB", "18446744073709551616", "-1", "-1KiB", "1e40", "1e999999999999", &"9".repeat(60)]
        {
            assert!(bytes(text).unwrap_err().out_of_range, "{text}");
        }
        assert!(bytes("64K").unwrap_err().help.contains("64KiB"));
    }

    /// Times carry their unit, add up from large to small, and are exact.
    #[test]
    fn times() {
        let ok: &[(&str, u64)] = &[
            ("20us", 20_000),
            ("20µs", 20_000),
            ("1s", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1m30s", 90_000_000_000),
            ("1h 5m", 3_900_000_000_000),
            ("2min", 120_000_000_000),
            ("0s", 0),
            ("250 ms", 250_000_000),
            ("0.000000001s", 1),
        ];
        for (text, want) in ok {
            assert_eq!(nanos(text), Ok(*want), "{text}");
        }
        for text in ["", "5", "s", "1x", "30s1m", "1s1s", "0.5ns", "1m30", "1s,", "1s é"] {
            assert!(!nanos(text).unwrap_err().out_of_range, "{text}");
        }
        for text in ["-1s", "600y1s", "1e30s", "300000d"] {
            assert!(nanos(text).is_err(), "{text}");
        }
        assert!(nanos("5").unwrap_err().help.contains("\"5s\""));
    }

    /// Counts and shares.
    #[test]
    fn counts_and_shares() {
        assert_eq!((count("64"), count("0x40"), count("1e3")), (Ok(64), Ok(64), Ok(1000)));
        assert!(count("12abc").is_err() && count("1.5").is_err() && count("64KiB").is_err());
        assert!(count("99999999999999999999").unwrap_err().out_of_range);
        assert_eq!((percent("25%"), percent("25 %")), (Ok(25), Ok(25)));
        assert!(percent("25").unwrap_err().help.contains("25%"));
    }

    /// What is shown can be read back to the same value.
    #[test]
    fn shown_values_read_back() {
        for n in [0, 1, 1023, 1024, 65_536, 1_610_612_736, 15 << 60, u64::MAX, 1_000_000, 90_000_000_000] {
            assert_eq!(bytes(&show_bytes(n)), Ok(n));
            assert_eq!(nanos(&show_nanos(n)), Ok(n));
        }
    }
}
