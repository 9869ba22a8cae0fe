// Package memory is a cloud in this process: pools, machines, disks, snapshots and versions with latencies, limits and
// failures. It implements package cloud completely and passes package cloudtest.
//
// Nothing runs in the background. Each call first executes all due events in order, by an injected clock, so that equal
// calls at equal times give equal results. A disk has only the state that matters for an image: generalized since the
// last boot, and off during the copy.
//
// Besides the provider's calls there are calls for the guest (MarkGeneralized, GuestPowerOff), an autoscaler (ScaleIn),
// a stranger (RemoveInstance, ChangeRecipe, DeletePool) and failures (FailImages, SetQuota, Forbid). World returns the
// state and the history for tests. Faulty loses calls before or after their effect.
package memory
