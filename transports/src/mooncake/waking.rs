//! For how many bytes a connection shall wake its worker. Mooncake sends payload in pieces of 64 KiB: to be woken for each takes
//! the CPU from whoever sends the next, on both sides. Deliberately only a rule; sockets are told by those who own them.

/// From this length on payload is a large one.
pub(super) const LARGE_BYTES: u64 = 32 << 10;
/// Where more of a payload is missing, its connection wakes nobody for less.
const ENOUGH_BYTES: u64 = 128 << 10;

/// Where `missing` bytes of a payload are on their way.
pub(super) fn bytes_worth_waking(missing: u64) -> u32 {
    if missing < LARGE_BYTES { 1 } else { missing.min(ENOUGH_BYTES) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never more is waited for than is on its way, and small rests are taken as they come.
    #[test]
    fn never_more_than_comes() {
        for missing in [0, 1, LARGE_BYTES - 1] {
            assert_eq!(bytes_worth_waking(missing), 1);
        }
        for missing in [LARGE_BYTES, ENOUGH_BYTES - 1, ENOUGH_BYTES, 1 << 40] {
            let awaited = u64::from(bytes_worth_waking(missing));
            assert!((LARGE_BYTES..=missing.min(ENOUGH_BYTES)).contains(&awaited), "{missing}: {awaited}");
        }
    }
}
