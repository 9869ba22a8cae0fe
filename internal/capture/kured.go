package capture

// KuredLockUnknown is the reason of an event: Kamino reserved a donor without knowledge of kured's lock. An unreadable
// lock does not block captures, because the cluster may have no kured.
const KuredLockUnknown = "KuredLockUnknown"

// KuredLockStale is the reason of condition Stalled: a capture waits for a kured lock whose Node does not exist.
const KuredLockStale = "KuredLockStale"
