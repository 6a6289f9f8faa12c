//! Numbers with units on the command line.

/// Least limit in bytes a second.
const RATE_MIN: u64 = 1 << 10;

/// A size: `4096`, `4KiB`, `1.5GiB`, `10MB`; at least 1 byte.
///
/// # Errors
/// What may be written.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        other => return Err(format!("`{other}` is no unit of bytes: KiB, MiB, GiB, TiB, kB, MB, GB, TB")),
    };
    let wrong = || format!("`{text}` is no size; write 4096, 64KiB, 1.5MiB …");
    let number = number.replace('_', "");
    let value = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor).ok_or_else(wrong)?,
        Err(_) => {
            let parts = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
            if parts >= 1e18 || parts.fract() != 0.0 {
                return Err(wrong());
            }
            parts as u64
        }
    };
    if value == 0 { Err("at least 1 byte".into()) } else { Ok(value) }
}

/// A limit in bytes a second: a size, with or without `/s`. It wants a unit, because a bare number is KiB for users of rsync and
/// rclone, and bytes for everything else here; and it is at least 1KiB, below which nothing ends.
///
/// # Errors
/// What may be written.
pub fn bytes_per_s(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").unwrap_or(text);
    let rate = bytes(size)?;
    if size.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '.' || c == '_') {
        return Err(format!(
            "`{text}` has no unit: write {size}KiB, which is what rsync and rclone take a bare number for, or {size}MiB"
        ));
    }
    match rate {
        rate if rate < RATE_MIN => Err(format!("{rate} bytes a second never end: at least 1KiB a second")),
        rate => Ok(rate),
    }
}

/// A positive number, for thresholds.
///
/// # Errors
/// What may be written.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x.is_finite() => Ok(x),
        _ => Err("a number above 0".into()),
    }
}

/// Bytes for people: `1.50 GiB`.
pub fn human(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.2} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Bytes as an option takes them, and at least so many: `1537MiB`.
pub fn at_least(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{}KiB", bytes.div_ceil(1 << 10)),
        _ => format!("{}MiB", bytes.div_ceil(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit has a unit and at least 1KiB; what rsync and rclone take a bare number for is told.
    #[test]
    fn limits() {
        assert_eq!((bytes_per_s("10MB/s"), bytes_per_s("4KiB")), (Ok(10_000_000), Ok(4096)));
        assert_eq!((bytes_per_s("1024B"), bytes_per_s("1 KiB/s")), (Ok(1024), Ok(1024)));
        for bare in ["5", "5/s", "5000", "1.5"] {
            assert!(bytes_per_s(bare).is_err(), "{bare}");
        }
        assert!(bytes_per_s("5000").unwrap_err().contains("write 5000KiB"));
        assert!(bytes_per_s("5B").unwrap_err().contains("at least 1KiB"));
        assert!(bytes_per_s("x").unwrap_err().contains("no unit of bytes"));
    }

    /// Sizes with binary, decimal and no units are exact, beyond 32 bits too; nonsense is refused.
    #[test]
    fn sizes() {
        let good =
            [("1", 1), ("4KiB", 4096), ("1.5KiB", 1536), ("10MB", 10_000_000), ("4294967297", 4_294_967_297)];
        for (text, value) in good {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for wrong in ["", "0", "0KiB", "-1", "KiB", "1XB", "1.5", "99999999999GiB", "1e3", "1.2.3K"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (human(1536), human(3 << 30), human(7)),
            ("1.50 KiB".into(), "3.00 GiB".into(), "7 B".into())
        );
    }
}
