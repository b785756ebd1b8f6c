//! The engine on the scripted model: what schedules do, and that answers never depend on them.

mod suite;
