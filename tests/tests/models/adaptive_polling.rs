//! Adaptive polling: a worker that finds nothing goes to sleep when its budget is spent, costs nothing then, and hears of
//! whatever comes, however often it has just been falling asleep.

use std::time::{Duration, Instant};

use pipeline_node::{Options, Request};

use crate::files::{engine, target};
use crate::rig::{PATIENCE, done, nothing_left, open, pattern, region_of, until};
use crate::threads;

/// When the load ends the worker sleeps, without a turn, a spin or a yield more than its look once a second; idle it uses
/// under a hundredth of a CPU. One try of three, on a machine that may be busy with other things.
#[test]
fn it_is_parked_after_its_budget() {
    let before = threads::all();
    let client = engine("adaptive_polling", &[]);
    let nic = || client.stats().workers.into_iter().find(|worker| worker.pool == "nic").unwrap();
    let ids = threads::started(&before, &nic().name);
    assert_eq!(ids.len(), 1, "{ids:?}");
    let target = target("1MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    for _ in 0..200 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 1 << 14)]);
    }
    let mut shares = Vec::new();
    for _ in 0..3 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 1 << 14)]);
        // Asleep: nothing is looked at any more. The budget is 70 us; seconds are what a busy machine may take.
        let begin = Instant::now();
        until("it sleeps", || {
            let turns = nic().turns;
            std::thread::sleep(Duration::from_millis(20));
            nic().turns == turns
        });
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?} until it slept", begin.elapsed());
        let (worker, cpu, begin) = (nic(), threads::cpu(ids[0]), Instant::now());
        std::thread::sleep(Duration::from_millis(1500));
        let now = nic();
        // Looks by the limit of a sleep, and what they cost: a spin and a yield of the budget each at most.
        assert!(now.parks - worker.parks <= 4, "{} sleeps", now.parks - worker.parks);
        shares.push((threads::cpu(ids[0]) - cpu).as_secs_f64() / begin.elapsed().as_secs_f64());
        if shares.last().is_some_and(|share| *share < 0.01) {
            break;
        }
    }
    assert!(shares.last().is_some_and(|share| *share < 0.01), "{shares:?}");
    nothing_left(&client, [local]);
}

/// Single requests in a row, with pauses about as long as the budgets, so that each comes while the worker spins, yields,
/// falls asleep or sleeps: none is found by the limit of a sleep. The limit is ten seconds here, and a request that waited
/// for it would be seen.
fn singles(count: u32) {
    let set = ["pools.nic.wait={ spin = '20us', yield = '50us', park = '10s', adaptive = true }"];
    let client = engine("adaptive_polling", &set);
    let target = engine(
        "adaptive_polling",
        &[&set[..], &["segments.kv={ kind='dram', size='1MiB', access='read_write' }"]].concat(),
    );
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(64).unwrap();
    let request = [Request::write(&local, 0, kv.at(0), 64)];
    let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
    let mut dice = 0x9E37_79B9_u32;
    for round in 0..count {
        let from = Instant::now();
        let batch = client.submit(&request, Options::default()).unwrap_or_else(|e| panic!("{round}: {e}"));
        assert!(batch.wait(PATIENCE).unwrap_or_else(|e| panic!("{round}: {e}")).is_done());
        slowest = slowest.max(from.elapsed());
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        if dice.is_multiple_of(4) {
            // Up to the budgets together and some more; by looking at a clock, since a sleep is longer.
            let until = Instant::now() + Duration::from_nanos(u64::from(dice % 100_000));
            while Instant::now() < until {
                std::thread::yield_now();
            }
        }
    }
    let nic = |e: &pipeline_node::Engine| e.stats().workers.into_iter().find(|w| w.pool == "nic").unwrap();
    let (here, there) = (nic(&client), nic(&target));
    println!(
        "{count} in {:?}, slowest {slowest:?}; sleeps {} and {}, by their limit {} and {}",
        begin.elapsed(),
        here.parks,
        there.parks,
        here.timed_wakes,
        there.timed_wakes
    );
    assert!(slowest < Duration::from_secs(8), "{slowest:?}: a wake-up was lost: {here:?}, {there:?}");
    nothing_left(&client, [local]);
}

/// Twenty thousand single submissions: no wake-up is lost.
#[test]
fn no_wake_up_is_lost() {
    singles(20_000);
}

/// A million.
#[test]
#[ignore = "two minutes: `scripts/test models` runs it"]
fn no_wake_up_is_lost_in_a_million() {
    singles(1_000_000);
}
