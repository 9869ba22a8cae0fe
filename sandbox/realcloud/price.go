package realcloud

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// DefaultLimit is the price in dollars beyond which no run starts.
const DefaultLimit = 2.0

// lifetime is how long a run may take.
const lifetime = 3 * time.Hour

// item is a line of the price. Prices are assumed: the highest list prices that were known for common regions in November 2026, rounded up.
// The program does not ask AWS for prices.
type item struct {
	what string
	// dollars per unit, for a number of units.
	dollars float64
	unit    string
	most    float64
}

// gibHour is a price per GiB and month as one per GiB and hour.
const gibHour = 1.0 / 730

// items are the most that a run can use in a time.
func items(of time.Duration) []item {
	hours := of.Hours()
	return []item{
		{"the group, " + smallType, 0.0075, "instance-hour", maxGroup * hours},
		{"two beside it, " + oldType + " or " + smallType, 0.0095, "instance-hour", 2 * hours},
		{"disks and volumes, gp3", 0.15 * gibHour, "GiB-hour", (maxGroup + 2 + 3) * maxSize * hours},
		{"snapshots", 0.08 * gibHour, "GiB-hour", 2 * maxSize * hours},
		{"network without a gateway", 0, "hour", hours},
		{"API requests", 0, "request", maxCalls},
	}
}

// price is the most that a run can cost in a time.
func price(of time.Duration) float64 {
	sum := 0.0
	for _, i := range items(of) {
		sum += i.dollars * i.most
	}
	return sum
}

// printPrice writes the assumed price and its parts.
func printPrice(out io.Writer, of time.Duration) {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "WHAT\tAT MOST\tASSUMED PRICE\tDOLLARS\n")
	for _, i := range items(of) {
		fmt.Fprintf(t, "%s\t%.0f %s\t%.6f\t%.3f\n", i.what, i.most, i.unit, i.dollars, i.most*i.dollars)
	}
	_ = t.Flush() // of a terminal or a buffer
	fmt.Fprintf(out, `
At most %.2f $ in %.0f hours, if all of it ran all the time. The prices are
assumed, from AWS's lists of November 2026, and have no tax:
https://aws.amazon.com/ec2/pricing/on-demand/
https://aws.amazon.com/ebs/pricing/
`, price(of), of.Hours())
}
