//! The rings of stages in shared memory: one for both factors, or one for each.

use warpfold_lang::{Cursor, Pipeline, lane_id, when};

use super::tile::WgmmaTile;

/// One ring for both factors, or two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rings {
    /// That of the left factor, if it has one of its own, which no other block copies into.
    left: Option<Pipeline>,
    /// That of the right factor, or of both.
    right: Pipeline,
    tile: WgmmaTile,
}

/// Where in the rings a thread is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingCursor {
    left: Option<Cursor>,
    right: Cursor,
}

impl Rings {
    /// Of this many stages for each factor.
    pub(super) fn new(tile: WgmmaTile, [left, right]: [u32; 2]) -> Self {
        Self { left: tile.rows_stages.map(|_| Pipeline::new(left)), right: Pipeline::new(right), tile }
    }

    /// Makes the barriers ready: see [`Pipeline::init`].
    pub(super) fn init(self) {
        let warps = 4 * self.tile.consumers;
        self.left.iter().for_each(|ring| ring.init(1, warps));
        self.right.init(1, warps * self.tile.cluster);
    }

    /// The first stages.
    pub(super) fn start(self) -> RingCursor {
        RingCursor { left: self.left.map(Pipeline::start), right: self.right.start() }
    }

    /// The ring of each factor, and where in it a thread is; the same for both where there is one.
    pub(super) fn each(self, at: RingCursor) -> [(Pipeline, Cursor); 2] {
        let right = (self.right, at.right);
        [self.left.zip(at.left).unwrap_or(right), right]
    }

    /// Whether both factors come through one.
    pub(super) const fn are_one(self) -> bool {
        self.left.is_none()
    }

    /// For a consumer: waits until both factors are there.
    pub(super) fn wait(self, at: RingCursor) {
        self.left.zip(at.left).iter().for_each(|(ring, at)| ring.wait(*at));
        self.right.wait(at.right);
    }

    /// Tells every block that copies into these stages that the warp is done with them.
    pub(super) fn release(self, at: RingCursor) {
        self.left.zip(at.left).iter().for_each(|(ring, at)| when(lane_id().eq(0), || ring.empty(*at).arrive()));
        self.release_right(at.right);
    }

    /// The same for the last stages of a block, of which only those that another block fills are
    /// waited for.
    pub(super) fn release_last(self, at: RingCursor) {
        if self.tile.cluster > 1 {
            self.release_right(at.right);
        }
    }

    fn release_right(self, at: Cursor) {
        let cluster = self.tile.cluster;
        if cluster == 1 {
            when(lane_id().eq(0), || self.right.empty(at).arrive());
        } else {
            when(lane_id().lt(cluster), || self.right.empty(at).arrive_at(lane_id()));
        }
    }
}

impl RingCursor {
    /// Goes on to the next stages.
    pub(super) fn advance(self) {
        self.left.iter().for_each(|at| at.advance());
        self.right.advance();
    }
}
