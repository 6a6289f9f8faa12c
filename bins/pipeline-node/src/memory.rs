//! Regions of this node and what transports know of them. Deliberately one lock, taken by registration only: the
//! data path never comes here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline_stages::World;
use pipeline_stages::segments::RegionKeys;
use pipeline_transports::memory::{Memory, Region};
use pipeline_transports::transport::Registration;
use pipeline_transports::{Access, RegionId};

use crate::error::Error;

/// Registrations by region; never more than `limits.regions`, because the table refuses first.
#[derive(Default)]
pub(crate) struct Book {
    entries: Mutex<HashMap<RegionId, Vec<Registration>>>,
}

impl Book {
    /// Makes memory known to every transport, and a region of it.
    pub(crate) fn register(
        &self,
        world: &Arc<World>,
        memory: Memory,
        access: Access,
    ) -> Result<Region, Error> {
        let registrations = world.transports.iter().map(|t| t.transport.register(&memory, access));
        let registrations = registrations.collect::<Result<Vec<_>, _>>()?;
        let id = world.regions.add(memory, access)?;
        for registration in &registrations {
            registration.bind(id);
        }
        self.entries().insert(id, registrations);
        Ok(Region::new(&world.regions, id)?)
    }

    /// Appends a region to a segment, with what the transports want their counterparts to know of it.
    pub(crate) fn publish(&self, world: &World, segment: &str, id: RegionId) -> Result<u64, Error> {
        let facts = world.regions.facts(id).ok_or(pipeline_transports::Error::NotRegistered(id))?;
        let keys = self.entries().get(&id).map_or_else(Vec::new, |known| keys(known));
        Ok(world.segments.append(segment, id, facts.len, facts.access, keys)?)
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
