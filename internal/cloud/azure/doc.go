// Package azure is the Azure provider: it turns the calls of the cloud contract into requests to Azure
// Resource Manager through the Azure SDK, and Azure's answers into the contract's values and errors.
//
// There is one file per cloud noun: ids, instance, pool, recipe, snapshot, gallery, image. Two files stand
// between us and the credential (credential.go, cloudconfig.go), one says what every error means
// (errors.go), and preflight.go looks for what would fail later. The provider decides nothing about
// captures: it never waits for a long operation, it starts one and reads the resource's own state when it
// is asked again. It remembers what cannot change while the process runs (which gallery and definition
// exist, which region has no zone-redundant storage) and never a state.
//
// Facts about Azure that could not be tried on Azure itself are marked "unverified".
package azure
