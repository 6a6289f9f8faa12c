//! How long something rests after a failure: from one second, doubled with each failure that follows before it has proved
//! itself. Deliberately no clock and no decision of its own: what rests, and what that means, is for whoever asks.

use std::time::Duration;

use tokio::time::Instant;

/// The first rest, if the longest allowed is not shorter.
const FIRST: Duration = Duration::from_secs(1);

/// Of one NIC, or of the way between two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    until: Option<Instant>,
    last: Duration,
}

impl Rest {
    /// It has failed. While it rests already that is the same failure.
    pub(super) fn fail(&mut self, now: Instant, max: Duration) {
        let well = match self.until {
            Some(until) if until > now => return,
            Some(until) => now - until,
            None => Duration::MAX,
        };
        let proved = well > 2 * self.last;
        self.last = if proved { FIRST } else { 2 * self.last }.min(max);
        self.until = Some(now + self.last);
    }

    /// When it returns; `None`: it does not rest.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Whether its past still counts: it rests, or has not proved itself since.
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now.saturating_duration_since(until) <= 2 * self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(30);

    /// Rests double while failures follow each other, stay at the longest allowed, and begin anew once it has worked for
    /// twice as long as it rested; failures during a rest change nothing.
    #[test]
    fn rests_double_and_are_forgiven() {
        let (mut rest, mut now) = (Rest::default(), Instant::now());
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            rest.fail(now, MAX);
            let until = rest.until(now).unwrap();
            assert_eq!(until - now, Duration::from_secs(seconds));
            rest.fail(now + Duration::from_millis(5), MAX);
            assert_eq!(rest.until(now), Some(until));
            assert_eq!(rest.until(until), None);
            now = until + 2 * Duration::from_secs(seconds);
            assert!(rest.is_remembered(now));
        }
        now += Duration::from_millis(1);
        assert!(!rest.is_remembered(now));
        rest.fail(now, MAX);
        assert_eq!(rest.until(now).unwrap() - now, Duration::from_secs(1));
    }

    /// The longest rest may be shorter than the usual first one.
    #[test]
    fn short_rests() {
        let (mut rest, now) = (Rest::default(), Instant::now());
        rest.fail(now, Duration::from_millis(20));
        assert_eq!(rest.until(now).unwrap() - now, Duration::from_millis(20));
    }
}
