// Package memory is a cloud that lives in this process: pools, machines, disks, snapshots and image
// versions with the time that they take, the limits that they have and the ways in which they fail.
// It implements the contract of package cloud in full and passes package cloudtest.
//
// Nothing runs in the background. Time is injected, and whatever the clock has made due since the last
// call happens first, in the order in which it was due; so a run with the same calls at the same times
// always ends in the same world. A disk is modelled only as far as an image can be wrong: whether it was
// generalized since it last booted, and whether its machine was off when it was copied.
//
// Beside the provider's calls there are those of everybody else: the guest (MarkGeneralized,
// GuestPowerOff), an autoscaler (ScaleIn), a stranger with a portal (RemoveInstance, ChangeRecipe, DeletePool) and
// the cloud itself on a bad day (FailImages, SetQuota, Forbid). World shows all there is, and what was
// ever done, for a test to judge. Faulty loses calls, before or after their effect.
package memory
