//! Keys of the JSON files that vLLM, SGLang and LMCache read for Mooncake, and options of Mooncake's own programs.

use super::fate::{Basic, Fate, Row};

const STORE: &str = "a matter of Mooncake Store, not of its Transfer Engine";
const CONNECTOR: &str = "a matter of the program that uses the engine";

/// Keys of JSON files.
pub(super) const JSON: &[Row] = &[
    ("local_hostname", Fate::Basic(Basic::Name)),
    ("metadata_server", Fate::Basic(Basic::Metadata)),
    ("metadata_backend", Fate::Basic(Basic::MetadataKind)),
    ("metadata_type", Fate::Basic(Basic::MetadataKind)),
    ("protocol", Fate::Basic(Basic::Protocol)),
    ("mooncake_protocol", Fate::Basic(Basic::Protocol)),
    ("device_name", Fate::Basic(Basic::Devices)),
    ("global_segment_size", Fate::Basic(Basic::Memory)),
    (
        "local_buffer_size",
        Fate::Needless("the local side of a request is memory that the program allocates or registers"),
    ),
    (
        "num_workers",
        Fate::Needless(
            "one thread may have any number of batches in flight: `submit` does not wait for their end",
        ),
    ),
    ("master_server_address", Fate::Lacks(STORE)),
    ("master_metrics_port", Fate::Lacks(STORE)),
    ("storage_root_dir", Fate::Lacks(STORE)),
    ("check_server", Fate::Lacks(STORE)),
    ("standalone_storage", Fate::Lacks(STORE)),
    ("client_server_address", Fate::Lacks(STORE)),
    ("tenant_id", Fate::Lacks(STORE)),
    ("mode", Fate::Lacks(STORE)),
    ("transfer_timeout", super::fate::node("limits", "deadline", super::fate::Reading::Seconds)),
    ("prefill_url", Fate::Lacks("a peer is named in `[peers]`: prefill = \"mooncake://HOST:PORT\"")),
    ("decode_url", Fate::Lacks("a peer is named in `[peers]`: decode = \"mooncake://HOST:PORT\"")),
    ("kv_connector", Fate::Lacks(CONNECTOR)),
    ("kv_connector_module_path", Fate::Lacks(CONNECTOR)),
    ("kv_role", Fate::Needless("every node may read, write, be read and be written")),
    ("kv_rank", Fate::Lacks(CONNECTOR)),
    ("kv_parallel_size", Fate::Lacks(CONNECTOR)),
    ("kv_buffer_size", Fate::Lacks(CONNECTOR)),
    ("kv_buffer_device", Fate::Lacks(CONNECTOR)),
    ("kv_ip", Fate::Lacks(CONNECTOR)),
    ("kv_port", Fate::Lacks(CONNECTOR)),
    ("engine_id", Fate::Lacks(CONNECTOR)),
];

/// Options of this command: the names that `transfer_engine_bench` and `TransferEngine.initialize` have for them.
pub(super) const OPTIONS: &[Row] = &[
    ("--metadata-server", Fate::Basic(Basic::Metadata)),
    ("--local-server-name", Fate::Basic(Basic::Name)),
    ("--protocol", Fate::Basic(Basic::Protocol)),
    ("--device-name", Fate::Basic(Basic::Devices)),
    ("--priority-matrix", Fate::Basic(Basic::Matrix)),
    ("--buffer-size", Fate::Basic(Basic::Memory)),
];
