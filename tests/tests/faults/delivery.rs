//! Everybody who waits for a batch is told, once, when the stage that had it panics and when its completions come twice,
//! late or never: threads, tasks, descriptors, callbacks.

use std::time::Duration;

use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
use pipeline_node::{Engine, Options, Request, Source};

use crate::audience::{ALL_WAYS, all_are_told};
use crate::rig::{done, nothing_left, open, region_of, target, until};

fn telling(plan: &Plan) -> Engine {
    faults::start(&Source::text("all ways", ALL_WAYS), plan).unwrap_or_else(|e| panic!("{e}"))
}

/// As B31 and B27 for every way of delivery: a panic in post or reap, a doubled, a late and a lost completion.
#[test]
fn all_are_told_once() {
    let plan = Plan::default();
    let (client, server) = (telling(&plan), target("1MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = region_of(&client, &[7; 1 << 16]);
    let whole = Request::read(&region, 0, kv.at(0), 1 << 16);
    done(&client, &[whole]);
    let doorbell = client.doorbell().unwrap();
    let options = Options {
        notify: Some(doorbell.clone()),
        deadline: Some(Duration::from_secs(2)),
        ..Options::default()
    };
    let strikes = [
        (Site::Slice, Effect::Panic),
        (Site::Completion, Effect::Panic),
        (Site::Completion, Effect::Duplicate(Duration::from_millis(50))),
        (Site::Completion, Effect::Delay(Duration::from_millis(200))),
        (Site::Completion, Effect::Drop),
    ];
    for (site, effect) in strikes {
        let rule = plan.add(Rule::new(site, When::Nth(2), effect));
        let pieces: Vec<Request> =
            (0..4).map(|i| Request::read(&region, i << 12, kv.at((i * 2) << 12), 1 << 12)).collect();
        let batch = client.submit(&pieces, options.clone()).unwrap();
        let summary = all_are_told(&batch, &doorbell, true, || ());
        assert_eq!(plan.struck(rule), 1, "{effect:?} at {site:?}");
        let fails = matches!(effect, Effect::Panic | Effect::Drop);
        assert!(!fails || summary.failed > 0, "{effect:?} at {site:?}: {summary:?}");
        drop(batch);
        until("it is whole again", || {
            let again = client.submit(&[whole], Options::default()).unwrap();
            again.wait(crate::rig::PATIENCE).unwrap().is_done()
        });
    }
    until("all batches", || client.usage().batches == 0);
    nothing_left(&client, [region]);
}
