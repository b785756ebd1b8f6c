//! The virtual GPU as a device. [`profile`] has the GPUs that it stands in for.

mod profile;

pub use profile::Profile;
