//! `[directory]` of a file as what the control pool wants of it. Deliberately contacts nothing; only the password is read.

use pipeline_configs::DirectoryConfig;
use pipeline_stages::control::DirectorySettings;
use pipeline_transports::directory::{Password, StoreKind, StoreSettings, open};

use crate::error::Error;

/// Makes them.
///
/// # Errors
/// [`Error::Start`] for a type that this program was built without, [`Error::Memory`] for a password that cannot be read.
pub fn settings(config: &DirectoryConfig) -> Result<DirectorySettings, Error> {
    let kind = StoreKind::named(&config.kind)
        .ok_or_else(|| Error::Start(format!("there is no directory of type `{}`", config.kind)))?;
    let password = config.password_file.as_deref().map(Password::from_file).transpose()?;
    let store = StoreSettings {
        user: config.user.clone(),
        password,
        ..StoreSettings::new(kind, config.endpoints.clone())
    };
    // Whether this program has such stores at all; nothing is contacted.
    open(&store).map_err(|e| Error::Start(format!("[directory] {e}")))?;
    let DirectoryConfig { prefix, ttl, publishes, .. } = config;
    Ok(DirectorySettings { store, prefix: prefix.clone(), ttl: *ttl, publishes: *publishes })
}
