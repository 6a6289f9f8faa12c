//! From a point of the space to a file that can be started: overrides laid on the user's file, judged by the file's own rules, once
//! for each candidate. Deliberately the same way as `--set`: what is measured is the file as a user could have written it.

use std::collections::HashMap;

use pipeline_configs::Severity;
use pipeline_node::{Config, Findings, Source};

use super::bound::Bound;
use super::search::Point;
use super::space::{Space, excess};
use crate::cli::load::Waiting;
use crate::cli::work::{Application, beside};

/// A candidate that can be started.
#[derive(Clone)]
pub struct Ready {
    /// What the engine gets.
    pub config: Config,
    /// How the application waits.
    pub waits: Waiting,
    /// How far its sizes miss a bound.
    pub excess: f64,
}

/// All that were looked at.
pub struct Candidates<'a> {
    source: Source,
    space: &'a Space,
    bounds: &'a [Bound],
    target_is_named: bool,
    known: HashMap<Point, Result<Ready, String>>,
}

impl<'a> Candidates<'a> {
    /// Of a file.
    pub fn new(source: Source, space: &'a Space, bounds: &'a [Bound], target_is_named: bool) -> Self {
        Self { source, space, bounds, target_is_named, known: HashMap::new() }
    }

    /// A candidate, or what is wrong with it.
    ///
    /// # Errors
    /// The first finding.
    pub fn ready(&mut self, of: &Point) -> Result<Ready, String> {
        if let Some(known) = self.known.get(of) {
            return known.clone();
        }
        let ready = self.judge(of);
        self.known.insert(of.clone(), ready.clone());
        ready
    }

    fn judge(&self, of: &Point) -> Result<Ready, String> {
        let set = self.space.changes(of).iter().map(super::space::Change::set).collect::<Vec<_>>();
        let loaded = self.source.clone().set(set).load().map_err(|findings| first(&findings))?;
        loaded.runnable().map_err(|findings| first(&findings))?;
        Ok(Ready {
            waits: Application::of(&loaded.config).waits,
            excess: excess(self.space, of, &loaded.config.blueprint, self.bounds),
            config: beside(loaded.config, self.target_is_named),
        })
    }
}

/// What is wrong with a file, in a sentence.
pub fn first(findings: &Findings) -> String {
    // What only warns of the file is no reason.
    let errors = findings.list.iter().find(|finding| finding.severity == Severity::Error);
    errors
        .or(findings.list.first())
        .map_or_else(|| "it has findings".into(), |finding| finding.message.clone())
}
