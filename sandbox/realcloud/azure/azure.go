// Package azure checks on a real subscription what the product and its simulation assume of Azure. A run makes one resource group,
// and everything in it: a network, a gallery, and a scale set of two machines. The end of the run deletes the group.
//
// The machines talk through their serial console alone. They write the time to their disks all the time, and read the copies of
// other disks that Azure attaches: so a copy shows the moment of its snapshot.
package azure

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// Cloud is Azure.
func Cloud() *realcloud.Cloud {
	var permissions []string
	for _, r := range rules {
		permissions = append(permissions, r.permissions...)
	}
	slices.Sort(permissions)
	return &realcloud.Cloud{Name: "azure", Page: "azure.md", Place: "location, such as westus2", Assumptions: assumptions(), Unchecked: unchecked, Price: prices,
		MaxCalls: maxCalls, Permissions: slices.Compact(permissions), Connect: connect, Policy: roleOf, Simulate: simulate}
}

// target is a subscription, with a credential for it.
type target struct {
	cloud        azcloud.Configuration
	credential   azcore.TokenCredential
	subscription string
	transport    realcloud.Transport
}

// connect opens the subscription of the environment, with the credential that Kamino would use.
func connect(_ context.Context, region string) (*realcloud.Account, error) {
	found, err := provider.LoadConfig(provider.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if found.SubscriptionID == "" {
		return nil, errors.New("no subscription is set; use AZURE_SUBSCRIPTION_ID")
	}
	return realcloud.Real(accountOf(target{found.Cloud, found.Credential, found.SubscriptionID, http.DefaultClient}, region)), nil
}

// accountOf is an account without its time.
func accountOf(t target, region string) *realcloud.Account {
	if t.cloud.Services == nil {
		t.cloud = azcloud.AzurePublic
	}
	return &realcloud.Account{Region: region, Transport: t.transport,
		Open: func(c *realcloud.Course) (realcloud.Session, error) { return open(t, c) }}
}

// Limits of every run.
const (
	maxPool  = 3 // machines of the scale set; one more is beside it
	maxDisks = 7 // copies, beside the disks of the machines
	maxSize  = 30
	maxCalls = 6000
	// smallSize is the smallest size with Trusted Launch and Premium SSD.
	smallSize = "Standard_B1s"
)

// prices of Azure. A disk is billed by the size above its own: 32 GiB.
var prices = realcloud.Price{From: "Azure's lists of November 2026",
	Pages: []string{"https://azure.microsoft.com/pricing/details/virtual-machines/linux/", "https://azure.microsoft.com/pricing/details/managed-disks/"},
	Items: func(hours float64) []realcloud.Item {
		const month = 730
		return []realcloud.Item{
			{What: "the scale set and a trial, " + smallSize, Dollars: 0.0150, Unit: "machine-hour", Most: (maxPool + 1) * hours},
			{What: "disks of machines and copies, E4 or P4", Dollars: 6.00 / month, Unit: "disk-hour", Most: (maxPool + 1 + maxDisks) * hours},
			{What: "snapshots and two versions", Dollars: 0.13 * realcloud.GiBHour, Unit: "GiB-hour", Most: 6 * maxSize * hours},
			{What: "operations of Standard SSD, each 10,000", Dollars: 0.002, Unit: "times", Most: 100},
			{What: "network without addresses, API requests", Unit: "request", Most: maxCalls},
		}
	}}

// regionOf is the region of a run: that of its group, or the one that the user names.
func regionOf(group object, named string) (string, error) {
	if region := cmp.Or(text(group, "location"), named); region != "" {
		return region, nil
	}
	return "", errors.New("no region is named; use --region, such as --region westus2")
}
