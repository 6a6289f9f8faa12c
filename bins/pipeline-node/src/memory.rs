//! Regions of this node and what transports know of them. Deliberately one lock, taken by registration only: the
//! data path never comes here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pipeline_graph::Crew;
use pipeline_stages::World;
use pipeline_stages::segments::RegionKeys;
use pipeline_transports::memory::{Memory, Region};
use pipeline_transports::transport::Registration;
use pipeline_transports::{Access, InTurn, RegionId, Spread};

use crate::error::Error;

/// Registrations by region; never more than `limits.regions`, because the table refuses first.
#[derive(Default)]
pub(crate) struct Book {
    entries: Mutex<HashMap<RegionId, Vec<Registration>>>,
    /// Threads of the pool that `[limits] register` names, until the engine is stopped.
    crew: Mutex<Option<Arc<Crew>>>,
}

/// What a crew does for transports.
struct OnCrew<'a>(&'a Crew);

impl Spread for OnCrew<'_> {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.0.each(count, work);
    }
}

impl Book {
    /// One whose registrations are made by these threads; by whoever asks, without any.
    pub(crate) fn new(crew: Option<Arc<Crew>>) -> Self {
        Self { entries: Mutex::default(), crew: Mutex::new(crew) }
    }

    /// The engine is stopped: its threads go.
    pub(crate) fn dismiss(&self) {
        let crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Waits for them, and not under the lock.
        drop(crew);
    }

    /// Makes memory known to every transport, and a region of it.
    pub(crate) fn register(
        &self,
        world: &Arc<World>,
        memory: Memory,
        access: Access,
    ) -> Result<Region, Error> {
        let mut regions = self.register_all(world, vec![(memory, access)]).map_err(|(_, error)| error)?;
        Ok(regions.remove(0))
    }

    /// As [`Self::register`] for several at once, all or none, on all threads there are; or which of them failed first.
    pub(crate) fn register_all(
        &self,
        world: &Arc<World>,
        memories: Vec<(Memory, Access)>,
    ) -> Result<Vec<Region>, (usize, Error)> {
        let crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = match &crew {
            Some(crew) => know(world, &memories, &OnCrew(crew))?,
            None => know(world, &memories, &InTurn)?,
        };
        let mut regions = Vec::with_capacity(memories.len());
        for (at, ((memory, access), registrations)) in memories.into_iter().zip(known).enumerate() {
            let added = world.regions.add(memory, access).map_err(Error::from);
            let added = added.and_then(|id| {
                registrations.iter().for_each(|registration| registration.bind(id));
                self.entries().insert(id, registrations);
                Ok(Region::new(&world.regions, id)?)
            });
            match added {
                Ok(region) => regions.push(region),
                Err(error) => {
                    regions.into_iter().for_each(|region| self.forget(world, region));
                    return Err((at, error));
                }
            }
        }
        Ok(regions)
    }

    /// Takes back a region that nobody has heard of.
    fn forget(&self, world: &World, region: Region) {
        let id = region.id();
        let memory = region.unregister();
        // Devices let go before the memory goes.
        self.entries().remove(&id);
        if memory.is_err() {
            tracing::error!(?id, "a region that nobody knows is in use: this is a bug");
        }
        debug_assert!(world.regions.facts(id).is_none());
    }

    /// Appends a region to a segment, with what the transports want their counterparts to know of it.
    pub(crate) fn publish(&self, world: &World, segment: &str, id: RegionId) -> Result<u64, Error> {
        let facts = world.regions.facts(id).ok_or(pipeline_transports::Error::NotRegistered(id))?;
        let keys = self.entries().get(&id).map_or_else(Vec::new, |known| keys(known));
        let start = world.segments.append(segment, id, facts.len, facts.access, keys)?;
        for known in self.entries().get(&id).into_iter().flatten() {
            known.publish(segment);
        }
        Ok(start)
    }

    pub(crate) fn unregister(&self, world: &World, region: Region) -> Result<Memory, (Region, Error)> {
        let id = region.id();
        // Devices let go before the memory is anybody else's; peers are told of it no more.
        match region.unregister() {
            Ok(memory) => {
                world.segments.remove_region(id);
                let registrations = self.entries().remove(&id);
                drop(registrations);
                Ok(memory)
            }
            Err((region, error)) => Err((region, error.into())),
        }
    }

    pub(crate) fn unregister_within(
        &self,
        world: &World,
        region: Region,
        timeout: Duration,
    ) -> Result<Memory, (Region, Error)> {
        let id = region.id();
        if let Err(error) = world.regions.shut(id) {
            return Err((region, error.into()));
        }
        let begin = Instant::now();
        let mut region = region;
        loop {
            match self.unregister(world, region) {
                Ok(memory) => return Ok(memory),
                Err((back, Error::Memory(pipeline_transports::Error::Busy(..))))
                    if begin.elapsed() < timeout =>
                {
                    region = back;
                    if world.step() {
                        continue;
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err((back, error)) => {
                    // Only fails when it is gone, and then there is nothing to reopen.
                    let _ = world.regions.reopen(id);
                    return Err((back, error));
                }
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<RegionId, Vec<Registration>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What each transport wants told, in the order of the file.
fn keys(registrations: &[Registration]) -> RegionKeys {
    let told = registrations.iter().enumerate().map(|(t, known)| (t as u16, known.keys()));
    told.filter(|(_, keys)| !keys.is_empty()).collect()
}

type Answer = Result<Registration, pipeline_transports::Error>;

/// Makes all of it known to every transport; or lets go of what was known already, and says which memory failed first. Once
/// one has failed no more are begun.
fn know(
    world: &World,
    memories: &[(Memory, Access)],
    threads: &dyn Spread,
) -> Result<Vec<Vec<Registration>>, (usize, Error)> {
    let transports = world.transports.len();
    let answers: Vec<OnceLock<Answer>> =
        std::iter::repeat_with(OnceLock::new).take(memories.len() * transports).collect();
    let failed = AtomicBool::new(false);
    threads.each(answers.len(), &|at| {
        if failed.load(Relaxed) {
            return;
        }
        let (memory, access) = &memories[at / transports];
        let answer = world.transports[at % transports].transport.register_on(memory, *access, threads);
        if answer.is_err() {
            failed.store(true, Relaxed);
        }
        let _ = answers[at].set(answer); // Each is set once.
    });
    let mut known: Vec<Vec<Registration>> = memories.iter().map(|_| Vec::with_capacity(transports)).collect();
    let mut first = None;
    for (at, answer) in answers.into_iter().enumerate() {
        match answer.into_inner() {
            Some(Ok(registration)) => known[at / transports].push(registration),
            Some(Err(error)) => first = first.or(Some((at / transports, error.into()))),
            // Not begun, because another one failed.
            None => {}
        }
    }
    first.map_or(Ok(known), Err)
}
