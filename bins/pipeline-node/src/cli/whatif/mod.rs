//! `tune --what-if`: what a file would do on a machine that is not here, by a model that is fed with what was measured on one
//! that is. Deliberately without a search on the real path: that is `tune`.

mod against;
mod args;
mod calibration;
mod cell;
mod costing;
mod fit;
mod limit;
mod lower;
mod measure;
mod micro;
mod model;
mod report;
mod search;
mod site;
#[cfg(test)]
mod tests;
mod trials;

use std::time::Instant;

pub use args::WhatIfArgs;

use crate::cli::exit::{Failure, Outcome};
use crate::cli::file::{self, print};
use crate::cli::put::can_be_written;
use crate::cli::tune;
use crate::cli::work::{Application, Shape};
use calibration::Calibration;
use lower::Given;
use report::Told;
use search::Search;
use site::Site;

/// What the model runs of this machine before it counts, and then; nanoseconds.
const HERE_NS: (f64, f64) = (50e6, 200e6);
/// Of another one so many bytes of all its NICs, so that what is in flight at the beginning no longer counts: no less than
/// the shortest time and no more than the longest.
const RUN_BYTES: f64 = 2e9;
const RUN_NS: (f64, f64) = (5e6, 2e9);
const WARM: f64 = 0.6;

/// Runs it.
///
/// # Errors
/// 2 for options that do not go together, 71 for a `--save` that cannot be written, 78 for a file with findings, and what a
/// calibration fails of.
pub fn run(args: &tune::Args) -> Outcome {
    let what_if = &args.what_if;
    let Some(site) = &what_if.what_if else { return Ok(()) };
    let shapes = what_if.shapes(&args.work)?;
    what_if.save.as_deref().map_or(Ok(()), can_be_written)?;
    let given = what_if.calibration.as_deref().map(Calibration::load).transpose()?;
    if what_if.against.is_empty() {
        return elsewhere(args, site, &shapes, given);
    }
    if *site != Site::here() {
        return Err(Failure::usage("--against measures on this machine: say --what-if here"));
    }
    if !args.file.overrides().is_empty() {
        return Err(Failure::usage("--against measures files as they are: leave --set out"));
    }
    // It is not measured unless it is named again, and a mistake in it is told all the same.
    if !what_if.against.iter().any(|named| named == args.file.path()) {
        file::load(&args.file.source())?;
    }
    let (calibration, lines) = against::run(&what_if.against, &shapes, what_if.rounds as usize, given)?;
    if let Some(path) = &what_if.save {
        calibration.save(path)?;
    }
    match args.json {
        true => print(&format!("{}\n", serde_json::to_string(&lines).map_err(Failure::system)?)),
        false => print(&against::table(&lines, &calibration)),
    }
}

fn elsewhere(args: &tune::Args, site: &Site, shapes: &[Shape], given: Option<Calibration>) -> Outcome {
    let config = file::load(&args.file.source())?.config;
    let calibration = given.map_or_else(Calibration::take, Ok)?;
    if let Some(path) = &args.what_if.save {
        calibration.save(path)?;
    }
    let begun = Instant::now();
    let (callers, waits) = (callers(site), Application::of(&config).waits);
    // Every peer of many is asked at once: the depth is that of each.
    let depth = |shape: &Shape| (shape.depth * site.peers as u64).div_ceil(callers as u64);
    let asked: Vec<Shape> = shapes.iter().map(|shape| Shape { depth: depth(shape), ..*shape }).collect();
    let given = Given { site, costs: &calibration.costs, waits, callers };
    let search = Search { given, shapes: &asked, times: times(site) };
    let as_it_is = search.run(&config).map_err(Failure::data)?;
    let chosen = search.best(&as_it_is).map_err(Failure::data)?;
    let took_s = begun.elapsed().as_secs_f64();
    let told = Told::new(site, shapes, &calibration, &as_it_is, &chosen, took_s);
    match args.json {
        true => print(&format!("{}\n", serde_json::to_string(&told).map_err(Failure::system)?)),
        false => print(&told.text()),
    }
}

/// How long the model runs.
fn times(site: &Site) -> (f64, f64) {
    if site.is_here() {
        return HERE_NS;
    }
    let bytes_per_s: f64 = site.nics.iter().filter_map(|nic| nic.bytes_per_s).sum();
    let run_ns = (RUN_BYTES / bytes_per_s * 1e9).clamp(RUN_NS.0, RUN_NS.1);
    (WARM * run_ns, run_ns)
}

/// Threads of the application: one here, as where it is measured; elsewhere one for each NIC.
fn callers(site: &Site) -> usize {
    site.nics.len().max(1)
}
