//! One transport in place of those that a file declares, so that all files meet the same target.
//! Deliberately overrides like those of `--set`: what is compared is the file as a user could have written it.

use clap::ValueEnum;
use pipeline_configs::{Config, Kind};
use pipeline_stages::catalog::catalog;

use super::preferred::preferred;

/// What the bytes go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// TCP.
    Tcp,
    /// One copy within this process.
    Loopback,
    /// A simulated NIC within this process: 5 us a request by the clock, DMA; only a timer wakes who parks.
    Sim,
}

impl Over {
    /// Its type in a file.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Loopback => "loopback",
            Self::Sim => "sim",
        }
    }

    /// What every file declares in the end, as a value of TOML.
    pub fn settings(self) -> &'static str {
        match self {
            Self::Tcp => "{ type = 'tcp', lanes = 2 }",
            Self::Loopback => "{ type = 'loopback', lanes = 2 }",
            Self::Sim => "{ type = 'sim', lanes = 2, delay_min = '5us', delay_max = '5us' }",
        }
    }

    /// As the head of a report says it.
    pub fn words(self, target_is_named: bool) -> &'static str {
        match self {
            // Where a named target is, its address says.
            Self::Tcp if target_is_named => "TCP, 2 lanes",
            Self::Tcp => "loopback TCP, 2 lanes",
            Self::Loopback => "one copy within this process (loopback), 2 lanes",
            Self::Sim => {
                "a simulated NIC within this process (sim: 5 us a request by the clock, DMA; nobody wakes who parks but his timer), 2 lanes"
            }
        }
    }

    /// Whether a CPU copies its bytes.
    pub fn copies(self) -> bool {
        self != Self::Sim
    }

    /// Overrides that make it the only transport of this file. It keeps the name of the one that the file prefers, so that
    /// all that names this follows; what names another is emptied.
    pub fn overrides(self, config: &Config) -> Vec<String> {
        let Some(kept) = preferred(config).map(|i| config.transports[i].name.as_str()) else {
            return Vec::new();
        };
        let mut set: Vec<String> =
            config.transports.iter().map(|t| format!("transports.{}=false", t.name)).collect();
        set.push(format!("transports.{kept}={}", self.settings()));
        // Not only left out later: one of a kind that does not exist yet would keep the file from running.
        set.extend(config.segments.iter().map(|segment| format!("segments.{}=false", segment.name)));
        set.extend(config.nics.iter().map(|nic| format!("nics.'{}'=false", nic.name)));
        if !config.routes.is_empty() {
            set.push("routes=[]".into());
        }
        set.extend(lists(config).into_iter().map(|(stage, key)| format!("stages.{stage}.{key}=['{kept}']")));
        set
    }
}

/// Keys of stages that list transports, by stage.
fn lists(config: &Config) -> Vec<(&str, &'static str)> {
    let catalog = catalog();
    let mut found = Vec::new();
    for stage in &config.stages {
        let keys =
            catalog.stages.iter().find(|kind| kind.name == stage.kind).map_or(&[][..], |kind| kind.keys);
        let lists = keys.iter().filter(|key| matches!(key.kind, Kind::Transports));
        let said = lists.filter(|key| !stage.values.texts(key.name).is_empty());
        found.extend(said.map(|key| (stage.name.as_str(), key.name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_node::Source;

    /// A file with two transports that do not exist yet is left with the one of the comparison, under the name it prefers,
    /// and runs; one with a route and NICs of its own as well.
    #[test]
    fn every_file_meets_the_same_target() {
        let two = "transports.other = { type = \"rdma\", nics = [\"mlx5_0\"] }\nnics.mlx5_0 = { numa = 1 }\n\
                   segments.cold = { kind = \"file\", path = \"cold\", size = \"1MiB\" }\n\
                   stages.route = { prefer = [\"other\", \"tcp\"] }\nstages.post = { transports = [\"other\", \"tcp\"] }\n";
        let source = Source::text("two", format!("version = 1\nuse = \"tcp\"\n{two}"));
        let declared = source.load().unwrap();
        assert!(declared.runnable().is_err());
        for over in [Over::Tcp, Over::Loopback, Over::Sim] {
            let loaded = source.clone().set(over.overrides(&declared.config)).load().unwrap();
            loaded.runnable().unwrap();
            let left: Vec<_> = loaded.config.transports.iter().map(|t| (&*t.name, &*t.kind)).collect();
            assert_eq!(left, [("other", over.kind())]);
        }
        // Settings of the file's own TCP are not those of the comparison.
        let lanes = Source::text("lanes", "version = 1\nuse = \"tcp\"\ntransports.tcp.lanes = 7\n");
        let set = Over::Tcp.overrides(&lanes.load().unwrap().config);
        assert_eq!(lanes.set(set).load().unwrap().config.transports[0].values.number("lanes"), Some(2));
    }
}
