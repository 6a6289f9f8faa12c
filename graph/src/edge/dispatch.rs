//! Which worker gets an item.
//! Deliberately stateless: equal keys meet the same worker, whoever asks.

use crate::blueprint::Dispatch;
use crate::item::Item;
use crate::stage::Spec;

/// How many rings an edge has for `workers` consumers: the number of destinations a producer sees.
pub fn destinations(dispatch: Dispatch, workers: usize) -> usize {
    match dispatch {
        Dispatch::Any => 1,
        Dispatch::Owner | Dispatch::Hash => workers,
    }
}

/// The destination of `item` among `count`. An owner out of range is taken modulo: a bug of the spec that
/// costs locality and nothing else.
#[inline]
pub(crate) fn destination<T: Item>(dispatch: Dispatch, spec: &dyn Spec<T>, item: T, count: usize) -> usize {
    if count <= 1 {
        return 0;
    }
    match dispatch {
        Dispatch::Any => 0,
        Dispatch::Owner => {
            let owner = spec.owner(item);
            debug_assert!(owner < count, "Spec::owner answered {owner} of {count} workers");
            if owner < count { owner } else { owner % count }
        }
        Dispatch::Hash => turn(spread(spec.key(item), count), spec.rank(item), count),
    }
}

/// Maps a key to `0..count`, evenly even when keys are small and dense.
pub fn spread(key: u64, count: usize) -> usize {
    ((u128::from(mix(key)) * count as u128) >> 64) as usize
}

/// The destination `rank` after `first`, round the circle.
fn turn(first: usize, rank: u64, count: usize) -> usize {
    (first + (rank % count as u64) as usize) % count
}

/// The finaliser of splitmix64: every bit of the key moves every bit of the answer.
pub fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the key, as many ranks in a row as there are destinations reach each of them once.
    #[test]
    fn ranks_go_round() {
        for (key, count) in (0..200).zip([1, 2, 3, 7, 8].into_iter().cycle()) {
            let first = spread(key, count);
            let ranks = u64::MAX - 1000 - key..;
            let mut reached: Vec<usize> = ranks.take(count).map(|rank| turn(first, rank, count)).collect();
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..count), "key {key}, {count} destinations");
        }
    }

    /// Dense keys, strided keys and keys that differ in high bits only spread within 10 % of even.
    #[test]
    fn spreads_evenly() {
        let strides: [u32; 4] = [0, 6, 16, 40];
        for shift in strides {
            let mut count = [0u32; 7];
            for key in 0..70_000u64 {
                count[spread(key << shift, 7)] += 1;
            }
            assert!(count.iter().all(|c| (9_000..11_000).contains(c)), "{shift}: {count:?}");
        }
    }
}
