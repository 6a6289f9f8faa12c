//! Whether the NICs of a file's TCP transports can be used on this machine: what `validate` warns of, `doctor` calls an
//! error and a lane is refused for, all in the same words. Deliberately only looks at interfaces and their addresses.

use pipeline_configs::Config;
use pipeline_stages::catalog::tcp_settings;
use pipeline_transports::interfaces::Interfaces;
use pipeline_transports::tcp::illness;

/// What was found of one NIC.
pub struct Here {
    /// The transport that uses it.
    pub transport: String,
    /// Its name.
    pub nic: String,
    /// Why it cannot be used, and what to do.
    pub illness: Option<String>,
}

/// All NICs that TCP transports name, in the order of the file.
pub fn nics_here(config: &Config, on: &Interfaces) -> Vec<Here> {
    let tcp = config.transports.iter().filter(|transport| transport.kind == "tcp");
    let of = |transport: &pipeline_configs::TransportConfig| {
        let here = |nic: pipeline_transports::tcp::Nic| Here {
            transport: transport.name.clone(),
            illness: illness(&nic, on),
            nic: nic.name,
        };
        tcp_settings(transport).nics.into_iter().map(here).collect::<Vec<_>>()
    };
    tcp.flat_map(of).collect()
}
