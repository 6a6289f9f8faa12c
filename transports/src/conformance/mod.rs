//! One suite for every transport: the words of [`crate::link`] and [`crate::wr`] as cases.
//!
//! A transport's test file writes a [`Fixture`] and says `pipeline_transports::conformance!(MyFixture);`.
//! Deliberately without sleeps and threads: the suite steps all halves itself. Behind the feature
//! `conformance`, because it asserts and so must not be reachable from a node.

mod bytes;
mod closing;
mod fencing;
mod fixture;
mod lost_halves;
mod refusing;
mod rig;
mod rooms;
mod taking_back;

pub use bytes::*;
pub use closing::*;
pub use fencing::*;
pub use fixture::Fixture;
pub use lost_halves::*;
pub use refusing::*;
pub use rooms::*;
pub use taking_back::*;

/// Instantiates every case of the suite as a test, for a type that implements [`Fixture`]. Attributes before the type are
/// those of each test: `#[ignore = "…"]` where it takes a device.
#[macro_export]
macro_rules! conformance {
    (@each $fixture:ty, $attributes:tt: $($case:ident),*) => {
        $($crate::conformance!(@one $fixture, $attributes: $case);)*
    };
    (@one $fixture:ty, ($(#[$attribute:meta])*): $case:ident) => {
        /// The guarantee of the case of this name in `pipeline_transports::conformance`.
        #[test]
        $(#[$attribute])*
        fn $case() {
            $crate::conformance::$case::<$fixture>();
        }
    };
    ($(#[$attribute:meta])* $fixture:ty) => {
        $crate::conformance!(@each $fixture, ($(#[$attribute])*):
            write_moves_exact_bytes,
            read_moves_exact_bytes,
            batches_complete_once_each,
            many_outstanding_complete_once_each,
            unknown_and_stale_regions_are_refused,
            out_of_bounds_is_refused,
            missing_rights_are_refused,
            closing_region_is_refused,
            refusal_spares_its_neighbours,
            room_is_honoured,
            unknown_link_has_no_room,
            links_are_independent,
            idle_names_what_it_waits_for,
            cancel_before_begin,
            cancel_knows_only_its_own,
            discarded_read_leaves_the_buffer,
            abort_completes_all_then_closes_once,
            abort_leaves_the_target_alone,
            post_after_death,
            severed_link_completes_all_then_closes_once,
            fenced_link_changes_nothing,
            retry_on_another_link_wins,
            owner_may_overwrite_what_is_done,
            late_read_leaves_the_buffer,
            lost_post_half_strands_nobody,
            lost_reap_half_lets_go_of_memory,
            lost_serve_half_closes_its_links,
            region_in_use_is_busy,
            removed_region_is_never_touched
        );
    };
}
