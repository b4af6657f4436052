# Records made of text, cut out, put together again and summed up, as classic files and on top of HDF5.
set -eu
for part in 1 2 3; do
    {
        echo "netcdf part$part { dimensions: time = UNLIMITED; x = 300; variables: double time(time); float t(time, x); int mask(x); t:units = \"K\"; data:"
        echo "time = $part, $part.5;"
        echo "mask = $(seq -s , 1 300);"
        echo "t = $(seq -s , "$part" $((part + 599))); }"
    } >part$part.cdl
    ncgen -o part$part.nc part$part.cdl
    ncgen -k nc4 -o part$part.nc4 part$part.cdl
done
for kind in nc nc4; do
    ncrcat -h -O part1.$kind part2.$kind part3.$kind all.$kind
    ncks -h -O -d x,10,99 -d time,1,4 all.$kind cut.$kind
    ncks -h -A -d x,10,99 -v mask part2.$kind cut.$kind
    ncra -h -O all.$kind mean.$kind
    ncap2 -h -O -s 't=t*2' all.$kind twice.$kind
    for file in all cut mean twice; do
        ncdump $file.$kind | cksum
    done
done
ncdump -v time all.nc | tail -3
nccopy -k nc3 all.nc4 back.nc
ncdump -h back.nc
