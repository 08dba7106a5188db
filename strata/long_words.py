"""The words that the long documents are made of, written for this project: no such register, log or letter exists."""

from __future__ import annotations

PEOPLE = (
    "Agnes Thorvald|Bram Oosting|Celia Ndiaye|Dario Fontana|Eilidh Grant|Farid Hakimi|Gudrun Voss|Hamza Belkacem|"
    "Ines Carvalho|Jory Penrose|Kasia Wrona|Lorenz Aigner|Maud Tremblay|Nikos Drakos|Oona Heikkila|Pim Verstegen|"
    "Quentin Laird|Rukmini Iyer|Sunniva Dahl|Tadeo Quiroga|Ulla Brandt|Vikram Sethi|Wanda Kowal|Yara Nasser|"
    "Zoltan Bodnar"
).split("|")
PLACES = (
    "Ashby Quay|Brenna Point|Corran Ferry|Dunmallet|Elsinore Wharf|Fallow Bridge|Gannet Rock|Hollin Clough|"
    "Inver Sands|Jarrow Steps|Kestrel Mill|Lammas Green|Merrow Down|Nettle Hythe|Orme Landing|Pell Harbour|"
    "Quarry Bank|Rushen Mere|Saltby|Tarn Head|Upper Wick|Vellan Cove|Wrangle Fen|Yarrow Lock"
).split("|")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = tuple("January February March April May June July August September October November December".split())

WINDS = (
    "north-westerly|north-easterly|southerly|south-westerly|easterly|light and variable|westerly, backing south".split(
        "|"
    )
)
SEA = (
    "Sea smooth, long swell from the west|Short steep sea on the bar|Heavy swell, spray over the landing|"
    "Flat calm, the buoys doubled in the water|Rough, no boat out|Moderate, two drifters working to the south|"
    "Confused sea after the change of wind|Slight, ice on the handrails"
).split("|")
KEEPING = (
    "Wound the clockwork twice and trimmed the lamp at four|Cleaned the lower panes, which the gulls had fouled|"
    "Painted the store door with what was left of the green|"
    "Relief boat did not come; bread for three days remains|The assistant has a tooth and is bad company|"
    "Counted the tins, and found the count of last week wrong by one|"
    "A collier passed close and sounded twice; answered|Mended the hand winch with a bolt from the old bed|"
    "Caught a cod of eleven pounds from the steps|A tired blackbird in the lantern room, let out at first light|"
    "Fog signal for six hours, and could hear nothing after it for an hour|"
    "Wrote up the stores book and posted no letters|Read the almanac aloud to the assistant, who objected|"
    "Swept the chimney, and regretted the order of the work|"
    "The aerial came down in a squall and is up again on a broom"
).split("|")

CROPS = (
    "runner beans|early potatoes|leeks|beetroot|gooseberries|sweet peas|marrows|winter cabbage|broad beans|"
    "rhubarb|raspberries|garlic|onions from sets|dahlias for cutting|Jerusalem artichokes|kale|strawberries|"
    "parsnips"
).split("|")
PLOT_REMARKS = (
    "The water butt leaks at the seam and has been reported|Shares a wheelbarrow with the plot to the left|"
    "Asked again about hens; the answer is again no|Has put up a shed one foot wider than the rules allow|"
    "Won second prize for a basket of mixed roots|The path on the north side wants gravel|"
    "Bindweed comes under the fence from the railway|Away from June to August, a nephew waters|"
    "Keeps the tidiest compost heap on the site|Complains of the pigeons and encourages the fox|"
    "Uses the old bath as a cold frame|Offers surplus plants on the table by the gate|"
    "Has asked for a smaller plot nearer the tap|The apple tree predates the rules and may stay"
).split("|")

OBJECTS = (
    "a mantel clock|a concertina|a treadle sewing machine|a brass telescope|a pair of bellows|a bicycle lamp|"
    "a music box|a barometer|a typewriter|a rocking horse|a wind-up gramophone|a fishing reel|a coffee mill|"
    "a slide projector|a set of bagpipes|a leather suitcase|a carriage lantern|a bread slicer|a metronome|"
    "a garden gate"
).split("|")
FAULTS = (
    "The spring had been wound past its strength and let go|A screw of the wrong thread had been forced|"
    "Moth in the felt, rust in the hinges, otherwise sound|Someone had oiled it with something meant for salad|"
    "Two teeth of the small wheel were gone|The leather had dried out and cracked along the fold|"
    "It worked perfectly as soon as it was on the bench|The case had been glued shut by a previous hand|"
    "A child's marble was found in the mechanism|The axle was bent by a fall down the cellar stairs"
).split("|")
REPAIRS = (
    "Cut a new part from brass stock and polished it|Took it apart, washed it, put it together again|"
    "Replaced the leather and waxed the seams|Straightened the axle cold, in four small steps|"
    "Made a new spring and hardened it in oil|Drilled out the screw and bushed the hole|"
    "Returned it as found, with the marble in an envelope|Soldered the seam and tested it under water|"
    "Fitted felt from an old hat, which suits it|Left the old repair alone, because it holds"
).split("|")

MOTIONS = (
    "to repair the weighbridge before the autumn market|to lend the hall piano to the school|"
    "to ask the railway for a later Sunday train|to plant limes along the station road|"
    "to raise the fee for stalls by a tenth|to buy a second-hand snow plough|to open the reading room on Sundays|"
    "to paint the bandstand in its former colours|to fence the pond on its north side|"
    "to number the houses in Well Lane|to hold the fair a week earlier|"
    "to insure the clock tower against lightning|to drain the lower pasture|"
    "to let the old pump room to the rowing club|to print the by-laws in larger type|"
    "to thank the fire brigade in writing"
).split("|")
ASIDES = (
    "A letter from a resident about the smell was read and laid on the table|"
    "The chair asked members to be brief, and was|"
    "The stove smoked, and the windows were opened against the wishes of the treasurer|"
    "The surveyor's report is expected by the next meeting|"
    "The minutes of the last meeting were approved with one comma|"
    "A question about the drains was put and put off|The clerk was asked to find the plan of the cellars|"
    "Two members left for the last train|The caretaker's lamp oil was discussed at more length than it cost|"
    "It was noted that nobody had brought the key"
).split("|")

PIECES = (
    "spindle whorl|harness bell|tobacco box|child's shoe|pilgrim badge|butter mould|glass float|sugar nippers|"
    "candle snuffer|ink pot|netting needle|shop sign|fire bucket|weaver's shuttle|cattle brand|christening cup|"
    "eel spear|slate pencil|toll board|ration tin"
).split("|")
MATERIALS = "pewter|oak|bone|brass|lead-glazed clay|horn|wrought iron|green glass|bog wood|tinned copper".split("|")
CONDITIONS = (
    "Complete, with an old break repaired|Surface pitted, stable|One side scorched|"
    "Handle lost before it came to us|Very worn, the initials just legible|As new; it was probably never used|"
    "Worm holes, treated, no new dust|In two pieces that join|Stained by the newspaper it was wrapped in|"
    "Sound, apart from a modern label"
).split("|")
ORIGINS = (
    "Found when the mill race was drained|Bought at the sale of the old inn|Given by the finder's daughter|"
    "Dug up in a garden by a dog|Left on the doorstep in a shoebox|Transferred from the closed school|"
    "Lent in 1951 and never asked for again|Part of the ferryman's estate"
).split("|")

NEWS = (
    "The roof is on at last, and it rained at once, and we sat under it and listened.|"
    "Your cousin has taken up the trombone, from which the whole street suffers.|"
    "We had nineteen at table on Sunday and only eleven chairs, so the young ones ate standing.|"
    "The bees swarmed into the post box and the postman has been very good about it.|"
    "I have given the blue coat to the girl from next door, who has grown out of everything.|"
    "The doctor says that I am to walk more and argue less, and I have begun with the walking.|"
    "There was a frost in the night and the medlars are ready.|"
    "The new teacher boards with us and is afraid of the goose.|"
    "They are widening the road, and the old milestone lies in our ditch for safety.|"
    "I tried your receipt for quince paste and it has set like a tile.|The cat is well. The curtains are not.|"
    "Nobody has seen the ferry since Tuesday, and there is talk of a new boiler.|"
    "Your letter took nine days and arrived smelling of oranges.|"
    "The choir is to sing in the city, and half of us have never been on the train.|"
    "Father has built a boat in the attic and is now measuring the window.|"
    "We have had the piano tuned by a blind man who told us which floorboard was loose."
).split("|")
