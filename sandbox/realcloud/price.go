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

// Price is the most that a run can use of a cloud, with assumed prices: the highest list prices that were known for common regions,
// rounded up. The program does not ask a cloud for prices.
type Price struct {
	// Items for a number of hours.
	Items func(hours float64) []Item
	// From names the lists, Pages are their addresses.
	From  string
	Pages []string
}

// Item is a line of the price.
type Item struct {
	What string
	// Dollars per unit, for a number of units.
	Dollars float64
	Unit    string
	Most    float64
}

// GiBHour is a price per GiB and month as one per GiB and hour.
const GiBHour = 1.0 / 730

// most is the most that a run can cost in a time.
func (p Price) most(of time.Duration) float64 {
	sum := 0.0
	for _, i := range p.Items(of.Hours()) {
		sum += i.Dollars * i.Most
	}
	return sum
}

// print writes the assumed price and its parts.
func (p Price) print(out io.Writer, of time.Duration) {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "WHAT\tAT MOST\tASSUMED PRICE\tDOLLARS\n")
	for _, i := range p.Items(of.Hours()) {
		fmt.Fprintf(t, "%s\t%.0f %s\t%.6f\t%.3f\n", i.What, i.Most, i.Unit, i.Dollars, i.Most*i.Dollars)
	}
	_ = t.Flush() // of a terminal or a buffer
	fmt.Fprintf(out, `
At most %.2f $ in %.0f hours, if all of it ran all the time. The prices are
assumed, from %s, and have no tax:
`, p.most(of), of.Hours(), p.From)
	for _, page := range p.Pages {
		fmt.Fprintln(out, page)
	}
}
