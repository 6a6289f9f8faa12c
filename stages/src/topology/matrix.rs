//! A topology as Mooncake's priority matrix, and what such a matrix and `gpu_nics` say, laid over it.
//! Deliberately by names of NICs or of their devices, whichever the matrix has.

use std::collections::BTreeMap;

use pipeline_configs::{Config, Lists, Location, Matrix};

use super::nearness::NicPlace;
use super::{Nearness, Nic, Ranking, Topology};

fn goes_by(nic: &Nic, names: &[String]) -> bool {
    names.iter().any(|name| nic.name == *name || nic.device.as_deref() == Some(name))
}

/// How near NICs are to a place: as `gpu_nics` says, else as a matrix does, else by what is known of each.
pub(super) fn rank(
    config: &Config,
    location: Location,
    nics: &[Nic],
    known: impl Fn(&NicPlace) -> Nearness,
) -> Ranking {
    let said = match location {
        Location::Gpu(gpu) => config.topology.gpu_nics.get(&gpu).map(|names| (gpu, names)),
        _ => None,
    };
    let lists = config.topology.matrix.as_ref().and_then(|matrix| matrix.0.get(&location));
    let near = |nic: &Nic| match (said, lists) {
        (Some((gpu, names)), _) => {
            // In place of what the NIC's own table says of GPUs.
            let gpus = goes_by(nic, names).then(|| vec![gpu]);
            known(&NicPlace { gpus, ..nic.place.clone() })
        }
        (None, Some(lists)) if goes_by(nic, &lists.preferred) => Nearness::Said,
        (None, Some(lists)) if goes_by(nic, &lists.others) => Nearness::Other,
        (None, Some(_)) => Nearness::Unlisted,
        (None, None) => known(&nic.place),
    };
    // A matrix that was read is written as it was.
    let lists = lists.filter(|_| said.is_none()).map(|lists| [&lists.preferred, &lists.others]);
    let place = |nic: u16| {
        let mut names = lists.iter().flatten().copied().flatten();
        names.position(|name| goes_by(&nics[usize::from(nic)], std::slice::from_ref(name))).unwrap_or(0)
    };
    Ranking::listed(nics.iter().map(near).collect(), place)
}

/// Several NICs of the file may be one device, which a matrix names once.
fn once(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}

impl Topology {
    /// The NICs of a transport as Mooncake's matrix: for each place the nearest group as preferred (all, where nobody knows
    /// where memory or NICs lie), and the others.
    pub fn matrix(&self, transport: u16) -> Matrix {
        let nics = self.nics(transport);
        // Mooncake knows devices.
        let name = |nic: &u16| {
            let nic = &nics[usize::from(*nic)];
            nic.device.clone().unwrap_or_else(|| nic.name.clone())
        };
        let mut places = BTreeMap::new();
        for (at, location) in self.places().iter().enumerate() {
            let mut groups = self.ranking(transport, at as u16).groups().map(|(_, nics)| nics);
            let (mut preferred, mut others) = (Vec::new(), Vec::new());
            groups.next().into_iter().flatten().map(name).for_each(|name| once(&mut preferred, name));
            groups.flatten().map(name).filter(|n| !preferred.contains(n)).for_each(|n| once(&mut others, n));
            places.insert(*location, Lists { preferred, others });
        }
        // It makes that up by itself from the others.
        if places.len() > 1 {
            places.remove(&Location::Any);
        }
        Matrix(places)
    }
}
