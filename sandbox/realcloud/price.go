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
		{"instances of the group, " + smallType, 0.0075, "instance-hour", maxGroup * hours},
		{"two instances beside the group, " + oldType + " or " + smallType, 0.0095, "instance-hour", 2 * hours},
		{"their disks and three volumes, gp3", 0.15 * gibHour, "GiB-hour", (maxGroup + 2 + 3) * maxSize * hours},
		{"two snapshots", 0.08 * gibHour, "GiB-hour", 2 * maxSize * hours},
		{"network without gateway and public address", 0, "hour", hours},
		{"requests of the API", 0, "request", maxCalls},
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
	fmt.Fprintf(out, "\nAt most %.2f $ in %s, if all of it ran all the time. The prices are assumed from AWS's lists "+
		"(https://aws.amazon.com/ec2/pricing/on-demand/, https://aws.amazon.com/ebs/pricing/), without tax.\n", price(of), of)
}
