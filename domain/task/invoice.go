package task

import (
	"strconv"
	"strings"
	"time"
)

var invoiceTemplates = []Template{
	{
		ID: "invoice.total", Version: 1, Family: "invoice",
		keywords: keywords{
			own: []string{"invoice", "invoice total", "invoice check", "invoice helper", "invoice reader", "invoice parser", "invoice calculation"},
			described: []string{
				"invoice total", "total of an invoice", "totals of invoice", "adds up invoice", "add up invoice", "total an invoice", "invoice calculation",
			},
			veto: []string{
				"generate", "generator", "create", "creator", "creation", "send", "sender", "pay", "payment", "payable", "reminder", "template",
				"factoring", "ocr", "approve", "approval", "design", "scan", "scanner", "image", "pdf", "upload", "tracking", "dunning", "processing",
				"automation", "fraud",
			},
		},
		parameters: []parameter{{roleData, "invoicetext invoice text content document data body", true}},
		make:       makeInvoiceTotal,
	},
}

// What stands before and behind the pasted invoice.
var (
	invoiceLeads = []string{
		"Please have a look at this invoice:",
		"Here is an invoice that I was given:",
		"I have pasted an invoice below.",
		"Could you add up this invoice for me?",
		"This invoice came without a total:",
	}
	invoiceQuestions = []string{
		"What is the total including VAT?",
		"How much is the total amount due, VAT included?",
		"What is the gross total of the invoice?",
		"What does it come to with VAT?",
	}
	// vatOnce says how VAT is reckoned.
	vatOnce = []string{
		"VAT is worked out once, on the net sum.",
		"Take the VAT on the net sum, not line by line.",
		"Apply the VAT to the sum of all lines and round once, to the cent.",
		"Only round at the end, to the exact cent.",
	}
	totalAlone = []string{
		"Just the total, please.",
		"Reply with the final total only.",
		"I only need the one figure.",
		"The total alone is enough.",
	}
)

// invoiceLines write {n} pieces of {item} at {price} each.
var invoiceLines = []string{
	"- {item}, {n} pcs at {price} each",
	"{n} pcs {item} @ {price}",
	"{item} | qty {n} | unit price {price}",
}

// invoiceGoods are what is sold. The firms are made of textWords too.
var invoiceGoods = []string{"lamp", "tray", "kettle", "stool", "rug", "clock", "basket", "candle", "vase", "shelf", "mug", "blanket"}

func makeInvoiceTotal(d *draw) puzzle {
	serial := d.between(10000, 98999)
	day := date(d.between(2024, 2027), time.January, d.between(1, 365)).Format(isoDate)
	firm := title(pick(d, textWords)) + " " + title(pick(d, textWords)) + " " + pick(d, []string{"Supplies", "Goods", "Trading", "Works"})
	currency := pick(d, []string{"EUR", "USD", "GBP", "CHF"})
	vat := pick(d, []int{7, 10, 19, 20, 21, 22, 25})
	style := pick(d, invoiceLines)
	grouped := d.chance(2)
	text := []string{
		fill(pick(d, []string{"{firm}, invoice no. {n}, {day}", "Invoice {n} from {firm}, dated {day}", "{firm} | Invoice {n} | {day}"}),
			"firm", firm, "n", strconv.Itoa(serial), "day", day),
		"All amounts in " + currency,
	}
	near := append(make([]ratio, 0, 9), integer(serial), integer(vat))
	lines := make([]int64, 0, 5) // sums in cents, as are these
	var prices, net int64
	for range d.between(3, 5) {
		n := d.between(2, 24)
		price := decimal{int64(d.between(350, pick(d, []int{4900, 48000, 190000}))), 2}
		item := pick(d, textWords) + " " + pick(d, invoiceGoods)
		text = append(text, fill(style, "item", item, "n", strconv.Itoa(n), "price", price.text(grouped)))
		line := price.units * int64(n)
		near = append(near, price.ratio())
		lines = append(lines, line)
		prices += price.units
		net += line
	}
	text = append(text, fill(pick(d, []string{"plus {vat}% VAT", "VAT {vat}% on the net sum", "VAT: {vat}%"}), "vat", strconv.Itoa(vat)))

	gross := func(cents int64) ratio { return ratio{num: cents * int64(100+vat), den: 10_000} }
	exact := gross(net)
	pasted := strings.Join(text, "\n")
	p := puzzle{
		body:      pick(d, invoiceLeads) + "\n\n" + pasted + "\n\n" + pick(d, invoiceQuestions),
		rounding:  2,
		details:   [][]string{vatOnce, totalAlone},
		expected:  toTheCent(exact),
		arguments: func() map[Role]any { return map[Role]any{roleData: pasted} },
		near:      append(near, ratio{num: net, den: 100}, ratio{num: net * int64(vat), den: 10_000}),
		wrong: append(make([]ratio, 0, 8),
			gross(prices),                              // quantities not seen
			ratio{num: net, den: int64(100 + vat)},     // VAT taken off
			ratio{num: net + 100*int64(vat), den: 100}, // per cent taken for money
		),
	}
	for _, line := range lines { // one line not seen
		p.wrong = append(p.wrong, gross(net-line))
	}
	// The total must be right to the cent. What it must not resemble keeps the
	// distance of numbers for which the last digits matter less.
	wide := aimAt(exact, tolerance(exact, 2))
	p.poor = wide.nearAny(p.near, 3) || wide.nearAny(p.wrong, 3)
	return p
}
