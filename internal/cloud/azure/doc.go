// Package azure is the Azure provider: it turns the calls of the cloud contract into requests to Azure
// Resource Manager through the Azure SDK, and Azure's answers into the contract's values and errors.
//
// There is one file per cloud noun: instance, pool, recipe (and promote, which writes it), snapshot, gallery,
// image (and publish, which makes it). Three files find cloud and credential (config.go, cloudconfig.go,
// credential.go), ids.go says what things are called, errors.go what every error means, permission.go what the
// credential must be allowed, and preflight.go looks for what would fail later. The provider decides nothing about
// captures: it never waits for a long operation, it starts one and reads the resource's own state when it
// is asked again. It remembers what cannot change while the process runs (which gallery and definition
// exist, which region has no zone-redundant storage) and never a state.
//
// Facts about Azure that could not be tried on Azure itself are marked "unverified".
package azure
