//! Waiting for a batch in an engine with `caller` pools, where nothing goes on unless somebody steps it: one of those
//! who wait leads, the others sleep in the crowd until their batch has ended or the lead is free.
//! Deliberately the only place that knows both: the ledger knows no steps, and the graph no batches.

use pipeline_graph::{Callers, Nanos};
use pipeline_transports::clock;

use crate::key::Key;
use crate::ledger::{Batches, Summary, UNTOLD_NS};

/// Sleeps until the batch is done or `by` has passed. `told`: whether its end wakes waiters.
pub(crate) fn wait(
    callers: &Callers<Key>,
    batches: &Batches,
    batch: u32,
    by: Nanos,
    told: bool,
) -> Option<Summary> {
    let summary = loop {
        if let Some(summary) = batches.summary(batch) {
            break Some(summary);
        }
        if clock::now() >= by {
            break None;
        }
        match callers.lead() {
            Some(lead) => lead_until_done(lead, batches, batch, by),
            None => follow(callers, batches, batch, if told { by } else { by.min(clock::now() + UNTOLD_NS) }),
        }
    };
    // Whether this one led, or was woken to lead and had no need to: somebody must.
    if !callers.is_led() {
        batches.crowd.pass_on();
    }
    summary
}

fn lead_until_done(mut lead: pipeline_graph::Lead<'_, Key>, batches: &Batches, batch: u32, by: Nanos) {
    let word = batches.word(batch);
    while !word.is_done() && clock::now() < by {
        if lead.step(by, || word.lead()) {
            word.unlead();
        }
    }
}

fn follow(callers: &Callers<Key>, batches: &Batches, batch: u32, by: Nanos) {
    let follower = batches.crowd.join();
    // Both after joining: what happens from here on ends the sleep.
    if callers.is_led() && !batches.word(batch).await_elsewhere() {
        follower.sleep(batch, by);
    }
}
